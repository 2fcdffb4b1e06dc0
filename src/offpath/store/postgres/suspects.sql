-- name: suspects
-- The ready suspects of one crash, with how many of it have not ended; those that were cleared come
-- behind the others. None for a worker that is gone or has suspects already.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
ready as materialized (
    select j.id, j.task, j.queue, j.suspected, j.priority, j.run_at
    from offpath.job j
    where j.suspected is not null
        -- By the index of suspects: that of ready jobs would have a whole backlog walked over, and that
        -- of running ones, below, all that a worker holds.
        and j.state in ('scheduled', 'ready', 'running', 'blocked') and j.state || '' = 'ready'
        and j.task = any (array(select jsonb_array_elements_text(:tasks::text::jsonb)))
        and (
            :queues::text::jsonb = '[]'
            or j.queue = any (array(select jsonb_array_elements_text(:queues::text::jsonb)))
        )
        and j.queue <> all (array(select jsonb_array_elements_text(:full::text::jsonb)))
        and j.id not in (select jsonb_array_elements_text(:declined::text::jsonb)::uuid)
        and (
            /* part: may_have_key */
        )
        and not exists (
            select from offpath.queue_pause p
            where p.queue = j.queue and (p.until is null or p.until > (select clock.now from clock))
        )
),
first as materialized (
    select r.suspected
    from ready r
    where exists (
            select from offpath.worker w
            where w.id = :worker::text and w.expires_at > (select clock.now from clock)
        )
        and not exists (
            select from offpath.job h
            where h.suspected is not null
                and h.state in ('scheduled', 'ready', 'running', 'blocked')
                and h.state || '' = 'running' and h.worker = :worker::text
        )
    order by r.suspected = '', r.priority desc, r.run_at, r.id
    limit 1
)
select
    r.id::text, r.task, r.queue, r.suspected, r.id::text,
    (
        select count(*)
        from offpath.job o
        where o.suspected = r.suspected and o.state in ('scheduled', 'ready', 'running', 'blocked')
    )
from first f
join ready r on r.suspected = f.suspected
order by r.priority desc, r.run_at, r.id
limit :limit::int

-- name: reserve
-- Suspects that were just handed out have not begun.
update offpath.job j
set started_at = null, alone = :alone::boolean
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.state = 'running' and j.worker = :worker::text

-- name: beside_suspect
-- A suspect whose worker begins another job does not run alone any more.
update offpath.job j
set alone = false
where j.suspected is not null and j.state = 'running' and j.worker = :worker::text and j.alone

-- name: begin_apart
-- Reserved suspects run from now on.
with mine as materialized (
    select j.id
    from jsonb_to_recordset(:jobs::text::jsonb) as b (id uuid, worker text, deliveries bigint)
    join offpath.job j on j.id = b.id
    where j.state = 'running' and j.worker = b.worker and j.deliveries = b.deliveries
    order by j.id
    for update of j
)
update offpath.job j
set started_at = coalesce(:now::text::timestamptz, clock_timestamp())
from mine m
where j.id = m.id
returning j.id::text
