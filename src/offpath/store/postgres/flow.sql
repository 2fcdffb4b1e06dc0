-- name: limits
-- Keys as they are now, by name.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
named as materialized (
    select n.key
    from (
        select k.key from offpath.limit_key k
        where not k.line and (:after::text is null or k.key > :after::text)
            and (:keys::text is null or k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb))))
        union
        select n.key from offpath.limit_nudge n
        where strpos(n.key, E'\n') = 0 and strpos(n.key, E'\t') = 0
            and (:after::text is null or n.key > :after::text)
            and (:keys::text is null or n.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb))))
    ) as n
    order by n.key
    limit :limit::int
)
select
    n.key,
    case when last.spec is null then k.max_running
        else (last.spec ->> 'max_running')::bigint
    end,
    nullif(
        case when last.spec is null then offpath.read_json(k.rate) else last.spec -> 'rate' end,
        'null'::jsonb
    )::text,
    (
        select count(*) from offpath.job j
        where j.limit_key = n.key and j.state in ('ready', 'running')
    ) + (
        select coalesce(sum(p.cost), 0)::bigint
        from offpath.limit_part p
        join offpath.job j on j.limit_key = p.line and j.state in ('ready', 'running')
        where p.key = n.key
    ),
    (
        select count(*) from offpath.job j where j.limit_key = n.key and j.state = 'running'
    ) + (
        select coalesce(sum(p.cost), 0)::bigint
        from offpath.limit_part p
        join offpath.job j on j.limit_key = p.line and j.state = 'running'
        where p.key = n.key
    ),
    (
        select count(*)
        from (
            select from offpath.job j
            where j.limit_key = n.key and j.state = 'blocked' and j.reason = 'limit'
            limit 100000
        ) as few
    ) + (
        select count(*)
        from (
            select
            from offpath.limit_part p
            join offpath.job j
                on j.limit_key = p.line and j.state = 'blocked' and j.reason = 'limit'
            where p.key = n.key
            limit 100000
        ) as few
    ),
    case
        when k.closed_until > (select clock.now from clock) then offpath.micros(k.closed_until)
    end,
    coalesce(k.paused, false)::int
from named n
left join offpath.limit_key k on k.key = n.key
left join lateral (
    select offpath.read_json(o.spec) as spec
    from offpath.limit_nudge o
    where o.key = n.key and o.spec is not null
    order by o.id desc
    limit 1
) as last on true
order by n.key

-- name: count_held
-- Held jobs of all keys, counted up to a limit.
select count(*)
from (
    select from offpath.job j
    where j.limit_key is not null and j.state = 'blocked' and j.reason = 'limit'
    limit :limit::int
) as few

-- name: pause_queue
-- Nothing of a queue is handed out by a lease that begins after this has been committed.
insert into offpath.queue_pause as p (queue, until)
values (:queue::text, :until::text::timestamptz)
on conflict (queue) do update set until = excluded.until

-- name: resume_queue
-- Its jobs are handed out again; says whether it was paused.
delete from offpath.queue_pause p
where p.queue = :queue::text
returning (
    p.until is null or p.until > coalesce(:now::text::timestamptz, clock_timestamp())
)::int

-- name: queues
-- Queues with unended jobs or a pause; each count stops at a limit.
--
-- The queues are stepped to where an index has them; running jobs, which are few, are counted as a
-- whole, and blocked ones by what they wait for, since each kind has an index.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
lanes (queue) as (
    (select j.queue from offpath.job j where j.state = 'ready' order by j.queue, j.task limit 1)
    union all
    select next.queue
    from lanes l
    cross join lateral (
        select j.queue
        from offpath.job j
        where j.state = 'ready' and j.queue > l.queue
        order by j.queue, j.task
        limit 1
    ) as next
),
later (queue) as (
    (select j.queue from offpath.job j where j.state = 'scheduled' order by j.queue limit 1)
    union all
    select next.queue
    from later l
    cross join lateral (
        select j.queue
        from offpath.job j
        where j.state = 'scheduled' and j.queue > l.queue
        order by j.queue
        limit 1
    ) as next
),
counts as (
    select l.queue, 'ready' as state, n.jobs
    from lanes l
    cross join lateral (
        select count(*) as jobs
        from (
            select from offpath.job j
            where j.state = 'ready' and j.queue = l.queue
            limit :most::int
        ) as few
    ) as n
    union all
    select j.queue, 'running', least(count(*), :most::int)
    from offpath.job j where j.state = 'running' group by j.queue
    union all
    select l.queue, 'scheduled', n.jobs
    from later l
    cross join lateral (
        select count(*) as jobs
        from (
            select from offpath.job j
            where j.state = 'scheduled' and j.queue = l.queue
            limit :most::int
        ) as few
    ) as n
    union all
    select h.queue, 'held', least(count(*), :most::int)
    from (
        select j.queue
        from offpath.job j
        where j.limit_key is not null and j.state = 'blocked' and j.reason = 'limit'
        limit 20 * :most::int
    ) as h
    group by h.queue
    union all
    select b.queue, 'blocked', least(count(*), :most::int)
    from (
        (
            select j.queue from offpath.job j
            where j.state = 'blocked' and j.reason = 'signal'
            limit 20 * :most::int
        )
        union all
        (
            select j.queue from offpath.job j
            where j.gated_by is not null and j.state = 'blocked' and j.reason = 'gate'
            limit 20 * :most::int
        )
    ) as b
    group by b.queue
),
pauses as (
    select p.queue, p.until
    from offpath.queue_pause p
    where p.until is null or p.until > (select clock.now from clock)
)
select
    n.queue,
    coalesce(c.blocked, 0)::bigint, coalesce(c.held, 0)::bigint, coalesce(c.scheduled, 0)::bigint,
    coalesce(c.ready, 0)::bigint, coalesce(c.running, 0)::bigint,
    (p.queue is not null and p.until is null)::int,
    offpath.micros(p.until)
from (select c.queue from counts c union select p.queue from pauses p) as n
left join (
    select
        c.queue,
        sum(c.jobs) filter (where c.state in ('blocked', 'held')) as blocked,
        sum(c.jobs) filter (where c.state = 'held') as held,
        sum(c.jobs) filter (where c.state = 'scheduled') as scheduled,
        sum(c.jobs) filter (where c.state = 'ready') as ready,
        sum(c.jobs) filter (where c.state = 'running') as running
    from counts c
    group by c.queue
) as c on c.queue = n.queue
left join pauses p on p.queue = n.queue
order by n.queue
