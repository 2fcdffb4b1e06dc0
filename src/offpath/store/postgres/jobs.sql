-- name: hold_jobs
-- Keeps these jobs still, in one order, and says what they are.
select
    j.id::text, j.task, j.queue, coalesce(j.group_id, j.id::text), j.state, j.attempt, j.parent,
    j.grouped::int, j.announce, j.watched, j.redrives, j.has_undo::int, j.gated_by::text,
    (j.gate is not null)::int
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
order by j.id
for update

-- name: cancel_waiting
-- Waiting jobs, which are held, end as cancelled.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = 'cancelled',
    watched = case when j.watched = 1 then 2 else j.watched end,
    blocked_until = null,
    reason = 'cancelled',
    finished_at = clock.now,
    expires_at = clock.now + :keep::double precision * interval '1 second',
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'cancelled', clock.now
        )
    end
from clock
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.state in ('blocked', 'scheduled', 'ready')

-- name: cancel_running
-- Running jobs, which are held, are asked to end.
update offpath.job j
set cancel_requested = true
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.state || '' = 'running'
    and not j.cancel_requested

-- name: lapse_keys
-- Takes the unique keys of these jobs away from holders whose period is over.
update offpath.job j
set unique_held = false
where j.unique_key = any (array(
        select w.unique_key
        from offpath.job w
        where w.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
            and w.unique_key is not null
    ))
    and j.unique_held
    and j.unique_until <= coalesce(:now::text::timestamptz, clock_timestamp())

-- part: alone
-- Of the jobs in `held` those that may be put back: none whose unique key another job has, and of
-- those that want one key the first. It is found by its place, since a statement does not see the
-- keys that its own rows take.
alone as materialized (
    select h.id, h.delay, h.claim is not null and h.takes as takes
    from (
        select h.id, h.delay, h.claim, h.takes,
            row_number() over (partition by h.claim, h.takes order by h.id) as place
        from held h
    ) as h
    where h.claim is null
        or (
            (h.place = 1 or not h.takes)
            and not exists (
                select from offpath.job o where o.unique_key = h.claim and o.unique_held
            )
        )
)

-- name: redrive
-- Dead and cancelled jobs start afresh, waiting ones become due; those whose unique key another
-- job has are left alone, and of those that want one key all but the first.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
held as materialized (
    select j.id, b.delay,
        case
            when j.finished_at is not null and not j.unique_held
                and j.unique_states @> '"queued"'
                then j.unique_key
        end as claim,
        j.unique_until is null or j.unique_until > (select clock.now from clock) as takes
    from jsonb_to_recordset(:batch::text::jsonb) as b (id uuid, delay double precision)
    join offpath.job j on j.id = b.id
    where j.state in ('scheduled', 'ready', 'dead', 'cancelled')
    order by j.id
    for update of j
),
/* part: alone */
update offpath.job j
set state = case
        when due.run_at > (select clock.now from clock) then 'scheduled'
        when j.limit_key is null or j.state = 'ready' then 'ready'
        else 'blocked'
    end,
    run_at = due.run_at,
    attempt = case when j.finished_at is null then j.attempt else 1 end,
    losses = case when j.finished_at is null then j.losses else 0 end,
    suspected = case when j.finished_at is null then j.suspected end,
    redrives = j.redrives + case when j.finished_at is null then 0 else 1 end,
    redriven_at = case
        when j.finished_at is null then j.redriven_at else (select clock.now from clock)
    end,
    error_key = null,
    deadline = case
        when j.finished_at is null then j.deadline
        else (select clock.now from clock) + j.deadline_in * interval '1 second'
    end,
    cancel_requested = false,
    watched = case when j.watched = 2 then 1 else j.watched end,
    gate = null,
    blocked_until = case
        when j.limit_key is null or j.state = 'ready'
            or due.run_at > (select clock.now from clock)
            then null
        when j.finished_at is null then j.deadline
        else (select clock.now from clock) + j.deadline_in * interval '1 second'
    end,
    reason = case
        when j.limit_key is not null and j.state <> 'ready'
            and due.run_at <= (select clock.now from clock)
            then 'limit'
    end,
    progress = case when j.finished_at is null then j.progress end,
    started_at = case when j.finished_at is null then j.started_at end,
    finished_at = null,
    expires_at = null,
    unique_held = case
        when j.unique_key is null then false
        -- not asked again: who takes the key meanwhile makes this whole transaction look anew
        when h.takes then true
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'queued',
            (select clock.now from clock)
        )
    end
from alone h
cross join lateral (
    select (select clock.now from clock) + h.delay * interval '1 second' as run_at
) as due
where j.id = h.id
    and j.state in ('scheduled', 'ready', 'dead', 'cancelled')
returning j.id::text, j.state, j.attempt

-- name: amend
-- Waiting jobs, which are held, get other terms. A blocked one keeps its place in line but for its
-- priority; the end of a wait for a signal comes of the deadline that the job had then.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set priority = coalesce(:priority::int, j.priority),
    queue = coalesce(:queue::text, j.queue),
    run_at = coalesce(:run_at::text::timestamptz, j.run_at),
    deadline = coalesce(:deadline::text::timestamptz, j.deadline),
    state = case
        when :run_at::text is null then j.state
        when :run_at::text::timestamptz > clock.now then 'scheduled'
        when j.limit_key is null or j.state = 'ready' then 'ready'
        else 'blocked'
    end,
    reason = case
        when :run_at::text is null then j.reason
        when :run_at::text::timestamptz <= clock.now and j.limit_key is not null
            and j.state <> 'ready'
            then 'limit'
    end,
    blocked_until = case
        when j.state = 'blocked' and :deadline::text is not null then least(
            :deadline::text::timestamptz,
            (
                select g.deadline from offpath.job_gate g
                where g.id = j.gate and j.reason = 'gate'
            )
        )
        when j.state = 'blocked' then j.blocked_until
        when :run_at::text::timestamptz <= clock.now and j.limit_key is not null
            and j.state <> 'ready'
            then coalesce(:deadline::text::timestamptz, j.deadline)
    end,
    sent_back = 0
from clock
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and (
        j.state in ('scheduled', 'ready')
        or (
            j.state = 'blocked' and :queue::text is null and :run_at::text is null
            and (:deadline::text is null or j.reason <> 'signal')
        )
    )
returning j.id::text, j.state, j.queue

-- name: expired_jobs
-- Ended jobs whose time to be kept has passed, and that nobody holds. Jobs that are still to be
-- undone stay, and so do those that a gate watches or watched whose own jobs have not all ended, or
-- died at it and may be put back: these may ask for their results.
select j.id::text, coalesce(j.group_id, j.id::text), j.grouped::int, j.gated_by::text
from offpath.job j
where j.expires_at <= (select coalesce(:now::text::timestamptz, clock_timestamp()))
    and not (j.has_undo and j.state in ('dead', 'cancelled'))
    and not exists (
        select
        from offpath.gate_watch w
        join offpath.job h on h.gated_by = w.gate
        where w.job = j.id
            and (
                h.finished_at is null
                or (h.gate is not null and h.state = 'dead' and h.reason = 'unsatisfiable')
            )
    )
order by j.expires_at
limit :limit::int
for update of j skip locked

-- name: remove_failures
-- The histories of jobs that are about to go.
delete from offpath.failure f
where f.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: remove_steps
-- What jobs that are about to go have recorded.
delete from offpath.step s
where s.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: remove_jobs
-- These jobs, which are held, go.
delete from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: prune_claims
-- Forgets claims whose time has passed.
delete from offpath.claim c
where c.key = any (array(
    select o.key
    from offpath.claim o
    where o.free_at <= (select coalesce(:now::text::timestamptz, clock_timestamp()))
    order by o.free_at
    limit :limit::int
    for update skip locked
))

-- name: prune_workers
-- Forgets workers that are gone since long; what they still hold is rescued without their row.
delete from offpath.worker w
where w.id = any (array(
    select o.id
    from offpath.worker o
    where o.gone_at <= (
        select
            coalesce(:now::text::timestamptz, clock_timestamp())
            - :keep::double precision * interval '1 second'
    )
    order by o.id
    limit :limit::int
    for update skip locked
))

-- name: orphans
-- Running jobs, which are held from here on, whose worker's lease has ended or whose worker is gone.
--
-- Workers that hold something are found by stepping over the index of running jobs, so a page
-- full of healthy workers' jobs cannot hide a dead one's.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
holders (worker) as (
    /* part: job_holders */
),
gone as materialized (
    select h.worker, w.gone_at is not null as ended,
        -- Out of touch: the lease of a worker ran out whose death could have been seen, and was not.
        w.presence is not null and w.gone_at is null as out_of_touch
    from holders h
    left join offpath.worker w on w.id = h.worker
    where (w.expires_at > (select clock.now from clock)) is not true
        and h.worker not in (select jsonb_array_elements_text(:kept::text::jsonb))
),
picked as materialized (
    select c.id
    from gone g
    cross join lateral (
        select j.id
        from offpath.job j
        where j.state = 'running' and j.worker = g.worker
        limit :limit::int
    ) as c
    limit :limit::int
)
select
    j.id::text, j.task, j.queue, j.input, j.worker, j.deliveries, j.attempt, j.options,
    coalesce(j.group_id, j.id::text), j.priority, offpath.micros(j.run_at),
    offpath.micros(j.enqueued_at), j.losses, j.parent, j.dependents::text,
    offpath.micros(j.deadline), j.limit_key, j.headers,
    j.cancel_requested::int, j.announce, j.watched, j.redrives, j.grouped::int, j.suspected,
    j.alone::int, (j.started_at is not null)::int, g.out_of_touch::int, g.ended::int
from offpath.job j
join gone g on g.worker = j.worker
where j.id = any (array(select p.id from picked p))
order by j.id
for update of j skip locked

-- name: rescue
-- Moves orphans, which are held, on.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = b.state,
    losses = least(j.losses, 4611686018427387903) + b.begun,
    suspected = b.suspected,
    alone = null,
    admitted_at = case when j.limit_key is not null then clock.now end,
    worker = null,
    watched = case when j.watched = 1 and b.ended = 1 then 2 else j.watched end,
    reason = b.reason,
    finished_at = case when b.ended = 1 then clock.now end,
    expires_at = case
        when b.ended = 1 then clock.now + :keep::double precision * interval '1 second'
    end,
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until,
            case b.state when 'ready' then 'queued' else b.state end, clock.now
        )
    end
from jsonb_to_recordset(:batch::text::jsonb) as b (
    id uuid, state text, reason text, ended int, begun int, suspected text
)
cross join clock
where j.id = b.id
returning j.id::text

-- name: clear_suspects
-- Those of a crash that were not in the half that crashed again.
with aside as materialized (
    select j.id
    from offpath.job j
    where j.suspected = any (array(select jsonb_array_elements_text(:crashes::text::jsonb)))
        and j.state in ('scheduled', 'ready', 'blocked')
    order by j.id
    for update skip locked
)
update offpath.job j
set suspected = ''
from aside a
where j.id = a.id

-- name: add_failures
-- Failures for the histories of their jobs, of this moment.
insert into offpath.failure (job, delivery, attempt, at, kind, type, message, worker)
select
    b.id, b.delivery, coalesce((b.failure ->> 'attempt')::bigint, 1),
    coalesce(:now::text::timestamptz, clock_timestamp()),
    b.failure ->> 'kind', b.failure ->> 'type', b.failure ->> 'message', b.failure ->> 'worker'
from jsonb_to_recordset(:batch::text::jsonb) as b (id uuid, delivery bigint, failure jsonb)
on conflict (job, delivery) do nothing

-- name: note_gone_workers
-- Workers that are late and hold nothing are gone.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.worker w
set gone_at = (select clock.now from clock), presence = null, missing_since = null
where w.id = any (array(
        select l.id
        from offpath.worker l
        where l.gone_at is null and l.expires_at <= (select clock.now from clock)
        order by l.id
        limit 1000
        for update skip locked
    ))
    and not exists (
        select from offpath.job j where j.state = 'running' and j.worker = w.id
    )

-- name: trim_failures
-- Only the last failures of a job are kept.
delete from offpath.failure f
using (
    select distinct id
    from (select jsonb_array_elements_text(:ids::text::jsonb)::uuid as id) as given
) as b
where f.job = b.id
    and f.delivery <= (
        select o.delivery
        from offpath.failure o
        where o.job = b.id
        order by o.delivery desc
        offset :keep::int
        limit 1
    )
