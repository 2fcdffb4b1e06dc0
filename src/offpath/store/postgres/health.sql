-- name: deaths
-- Dead letters since a time, by whose they are and name.
--
-- Jobs and letters: the newest so many, by their indexes. Messages: of each stream so many, and the
-- streams are stepped to.
with recursive bound as materialized (
    select coalesce(:since::text::timestamptz, '-infinity'::timestamptz) as since
),
streams (box, stream) as (
    (
        select m.box, m.stream
        from offpath.message m
        where m.state = 'dead'
        order by m.box, m.stream
        limit 1
    )
    union all
    select next.box, next.stream
    from streams s
    cross join lateral (
        select m.box, m.stream
        from offpath.message m
        where m.state = 'dead' and (m.box, m.stream) > (s.box, s.stream)
        order by m.box, m.stream
        limit 1
    ) as next
),
found as (
    select 'task' as whose, few.task as name, count(*) as number
    from (
        select j.task
        from offpath.job j
        where j.state = 'dead' and j.finished_at >= (select b.since from bound b)
        order by j.finished_at desc
        limit :limit::int
    ) as few
    group by few.task
    union all
    select case s.box when 'out' then 'stream' else 'source' end, s.stream, counted.number
    from streams s
    cross join lateral (
        select count(*) as number
        from (
            select from offpath.message m
            where m.state = 'dead'
                and m.box = s.box
                and m.stream = s.stream
                and m.finished_at >= (select b.since from bound b)
            limit :limit::int
        ) as few
    ) as counted
    union all
    select 'router', few.router, count(*)
    from (
        select t.router
        from offpath.letter t
        where t.resolved_at is null and t.created_at >= (select b.since from bound b)
        order by t.created_at desc
        limit :limit::int
    ) as few
    group by few.router
)
select f.whose, f.name, f.number
from found f
where f.number > 0
order by f.whose collate "C", f.name collate "C"

-- name: limit_holders
-- The running job of each of these keys that began last.
select distinct on (j.limit_key)
    j.limit_key, j.id::text, j.task, offpath.micros(j.started_at)
from offpath.job j
where j.limit_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    and j.state = 'running'
    and j.started_at is not null
order by j.limit_key, j.started_at desc, j.id desc

-- name: router_lags
-- When the oldest committed event of each router was written, and whether its gates are open.
select r.name,
    (
        coalesce(
            (select g.state = 'open' from offpath.gate g where g.name = 'router:' || r.name), false
        )
        and coalesce((select g.state = 'open' from offpath.gate g where g.name = '*'), false)
    )::int,
    (
        select offpath.micros(min(first.at))
        from offpath.cursor c
        cross join lateral (
            select next.at
            from (
                select l.position, l.at, l.slot
                from offpath.log l
                where l.domain = r.domain and l.position > c.position
                order by l.position
                limit 10000
            ) as next
            where mod(next.slot, r.partitions) = c.partition
            order by next.position
            limit 1
        ) as first
        where c.router = r.name
    )
from offpath.router r
order by r.name
limit 1000
