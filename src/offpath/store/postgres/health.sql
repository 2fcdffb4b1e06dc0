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
with named as materialized (
    select g.key, g.key as line
    from (select jsonb_array_elements_text(:keys::text::jsonb) collate "C" as key) as g
    union
    select p.key, p.line
    from offpath.limit_part p
    where p.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
)
select distinct on (n.key)
    n.key, j.id::text, j.task, offpath.micros(j.started_at)
from named n
join offpath.job j on j.limit_key = n.line
where j.state = 'running'
    and j.started_at is not null
order by n.key, j.started_at desc, j.id desc

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

-- name: findings
-- Findings that stand, by name.
select
    id, name, text, offpath.micros(since), offpath.micros(seen_at),
    offpath.micros(accepted_at), reason
from offpath.finding
where ended_at is null
order by name
limit 1000

-- name: pass_finding
-- Ends a finding that was accepted with another text than what is found now.
update offpath.finding
set ended_at = coalesce(:now::text::timestamptz, clock_timestamp())
where name = :name::text
    and ended_at is null
    and accepted_at is not null
    and text <> :text::text

-- name: record_finding
-- The finding of this name is seen again, or is new.
insert into offpath.finding as f (since, seen_at, id, name, text)
select clock.now, clock.now, :id::text, :name::text, :text::text
from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now) as clock
on conflict (name) where ended_at is null do update
set text = excluded.text, seen_at = excluded.seen_at
returning
    f.id, f.name, f.text, offpath.micros(f.since), offpath.micros(f.seen_at),
    offpath.micros(f.accepted_at), f.reason

-- name: forget_finding
-- What is not so any more, and was not accepted.
delete from offpath.finding
where name = :name::text and ended_at is null and accepted_at is null
returning 1

-- name: end_finding
-- What is not so any more, and was accepted.
update offpath.finding
set ended_at = coalesce(:now::text::timestamptz, clock_timestamp())
where name = :name::text and ended_at is null and accepted_at is not null
returning 1

-- name: accept_finding
-- Accepts a finding; who accepted it first did.
update offpath.finding f
set reason = case when f.accepted_at is null then :reason::text else f.reason end,
    accepted_at = coalesce(f.accepted_at, :now::text::timestamptz, clock_timestamp())
where f.id = :id::text and f.ended_at is null
returning
    f.id, f.name, f.text, offpath.micros(f.since), offpath.micros(f.seen_at),
    offpath.micros(f.accepted_at), f.reason

-- name: note_declarations
-- Notes what somebody's code defines, by kind and name; its first time stays.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
insert into offpath.declaration as d (kind, name, fingerprint, first_seen, last_seen)
select :kind::text, b.name, b.fingerprint, clock.now, clock.now
from clock, jsonb_to_recordset(:batch::text::jsonb) as b (name text, fingerprint text)
order by b.name
on conflict (kind, name, fingerprint) do update
set last_seen = greatest(d.last_seen, excluded.last_seen)

-- name: overruled_declarations
-- Those of them that are older than another one of that name which was declared lately.
select distinct mine.name
from jsonb_to_recordset(:batch::text::jsonb) as b (name text, fingerprint text)
join offpath.declaration mine
    on mine.kind = :kind::text and mine.name = b.name and mine.fingerprint = b.fingerprint
join offpath.declaration other
    on other.kind = mine.kind
    and other.name = mine.name
    and (other.first_seen, other.fingerprint) > (mine.first_seen, mine.fingerprint)
where other.last_seen + :live::double precision * interval '1 second'
    > coalesce(:now::text::timestamptz, clock_timestamp())

-- name: forget_declarations
-- Removes what nobody has declared for long, and nobody else is removing.
with old as materialized (
    select o.kind, o.name, o.fingerprint from offpath.declaration o
    where o.kind = :kind::text
        and o.last_seen + :keep::double precision * interval '1 second'
            < coalesce(:now::text::timestamptz, clock_timestamp())
    for update skip locked
)
delete from offpath.declaration d
using old
where d.kind = old.kind and d.name = old.name and d.fingerprint = old.fingerprint

-- name: live_declarations
-- What is declared of a kind, by name, the newest first.
select d.name, d.fingerprint, offpath.micros(d.first_seen), offpath.micros(d.last_seen)
from offpath.declaration d
where d.kind = :kind::text
    and d.last_seen + :live::double precision * interval '1 second'
        > coalesce(:now::text::timestamptz, clock_timestamp())
order by d.name, d.first_seen desc, d.fingerprint desc
limit 10000
