-- name: succeed
-- The common end: success of jobs that no group row counts, that no gate watches and that have
-- nothing to undo. Others are missing in the answer.
--
-- A held job is a running one and no other (a CHECK sees to it), so the fence does not name the
-- state: the planner could then take the index of running jobs instead of the primary key. What else
-- is asked of the job is one condition, since each one halves the rows that the planner expects of a
-- table it knows nothing of, and for a single one it compares each job with the whole batch.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = case when j.cancel_requested then 'cancelled' else 'succeeded' end,
    result = case when j.cancel_requested then null else b.result end,
    reason = case when j.cancel_requested then 'cancelled' end,
    worker = null,
    finished_at = (select clock.now from clock),
    expires_at = (select clock.now from clock) + b.keep * interval '1 second',
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until,
            case when j.cancel_requested then 'cancelled' else 'succeeded' end, (select clock.now from clock)
        )
    end
from unnest(
    :ids::text::uuid[],
    string_to_array(:workers::text, chr(31)),
    :deliveries::text::bigint[],
    string_to_array(:results::text, chr(31), ''),
    :keeps::text::double precision[]
) with ordinality as b (id, worker, deliveries, result, keep, n)
where j.id = b.id
    and j.worker = b.worker
    and j.deliveries = b.deliveries
    and not coalesce(j.grouped or j.has_undo or j.watched <> 0, true)
returning
    b.n::int, j.cancel_requested::int, j.announce, j.redrives,
    -- whether others may have waited for it to end
    (j.unique_key is not null and j.unique_states @> '"running"'
        and not j.unique_states @> '"queued"')::int

-- name: succeed_in_company
-- As succeed, of any job, in the columns of settle.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = case when j.cancel_requested then 'cancelled' else 'succeeded' end,
    result = case when j.cancel_requested then null else b.result end,
    reason = case when j.cancel_requested then 'cancelled' end,
    worker = null,
    watched = case when j.watched = 1 then 2 else j.watched end,
    finished_at = (select clock.now from clock),
    expires_at = (select clock.now from clock) + b.keep * interval '1 second',
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until,
            case when j.cancel_requested then 'cancelled' else 'succeeded' end, (select clock.now from clock)
        )
    end
from jsonb_to_recordset(:batch::text::jsonb) as b (
    n integer, id uuid, worker text, deliveries bigint, result text, keep double precision
)
where j.id = b.id
    and j.worker = b.worker
    and j.deliveries = b.deliveries
returning
    b.n, j.state, offpath.micros(j.run_at),
    case when j.grouped then coalesce(j.group_id, j.id::text) end, j.announce,
    j.watched, j.has_undo::int, j.redrives,
    (j.unique_key is not null and j.unique_states @> '"running"'
        and not j.unique_states @> '"queued"')::int

-- name: note_faults
-- The faults of jobs that have just died, which this transaction holds.
update offpath.job j
set error_key = b.key
from jsonb_to_recordset(:batch::text::jsonb) as b (id uuid, key text)
where j.id = b.id and j.state = 'dead'

-- name: settle
-- Ends attempts in any way, and writes down their failures. Lost leases are missing in the answer.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
settled as (
    update offpath.job j
    set state = case
            when j.cancel_requested then 'cancelled'
            when b.state <> 'queued' then b.state
            when coalesce(b."until", (select clock.now from clock) + b.delay * interval '1 second', j.run_at) <= (select clock.now from clock)
                then case
                    when j.limit_key is not null and (b.delay is not null or b."until" is not null)
                        then 'blocked'
                    else 'ready'
                end
            else 'scheduled'
        end,
        run_at = case
            when j.cancel_requested or b.state <> 'queued' then j.run_at
            else coalesce(b."until", (select clock.now from clock) + b.delay * interval '1 second', j.run_at)
        end,
        result = case when b.state = 'succeeded' and not j.cancel_requested then b.result end,
        reason = case
            when j.cancel_requested then 'cancelled'
            when j.limit_key is not null and b.state = 'queued'
                and coalesce(b."until", (select clock.now from clock) + b.delay * interval '1 second')
                    <= (select clock.now from clock)
                then 'limit'
            else b.reason
        end,
        attempt = j.attempt + case when j.cancel_requested then 0 else b.spent end,
        worker = null,
        admitted_at = case when j.limit_key is not null then (select clock.now from clock) end,
        watched = case
            when j.watched = 1 and (j.cancel_requested or b.state not in ('queued', 'blocked')) then 2
            else j.watched
        end,
        -- who was woken for a signal has it until it takes it, ends, or waits for another
        wait_target = case when b.state = 'queued' then j.wait_target else b.wait_target end,
        wait_event = case when b.state = 'queued' then j.wait_event else b.wait_event end,
        wait_since = case when b.state = 'blocked' then (select clock.now from clock) end,
        wait_until = case
            when b.state = 'blocked'
                then (select clock.now from clock) + b.timeout * interval '1 second'
        end,
        blocked_until = case
            when b.state = 'blocked' and not j.cancel_requested then least(
                j.deadline, (select clock.now from clock) + b.timeout * interval '1 second'
            )
            when j.limit_key is not null and b.state = 'queued' and not j.cancel_requested
                and coalesce(b."until", (select clock.now from clock) + b.delay * interval '1 second')
                    <= (select clock.now from clock)
                then j.deadline
        end,
        finished_at = case
            when j.cancel_requested or b.state not in ('queued', 'blocked')
                then (select clock.now from clock)
        end,
        expires_at = case
            when j.cancel_requested or b.state not in ('queued', 'blocked')
                then (select clock.now from clock) + b.keep * interval '1 second'
        end,
        unique_held = case
            when j.unique_key is null then false
            else offpath.may_hold(
                j.id, j.unique_key, j.unique_states, j.unique_until,
                case when j.cancel_requested then 'cancelled' else b.state end, (select clock.now from clock)
            )
        end
    from jsonb_to_recordset(:batch::text::jsonb) as b (
        n integer, id uuid, worker text, deliveries bigint, state text, result text, reason text,
        spent integer, delay double precision, "until" timestamptz, keep double precision,
        failure jsonb, wait_target text, wait_event text, timeout double precision
    )
    where j.id = b.id
        and j.worker = b.worker
        and j.deliveries = b.deliveries
    returning
        b.n, j.id, j.deliveries, j.state, j.run_at, j.grouped, j.group_id, j.announce, b.failure,
        j.watched, j.has_undo, j.redrives,
        (j.unique_key is not null and j.unique_states @> '"running"'
            and not j.unique_states @> '"queued"')::int as frees
),
failed as (
    insert into offpath.failure (
        job, delivery, attempt, at, kind, type, message, traceback, module, started_at, worker
    )
    select
        s.id, s.deliveries,
        coalesce((s.failure ->> 'attempt')::bigint, 1),
        coalesce((s.failure ->> 'at')::timestamptz, (select clock.now from clock)),
        s.failure ->> 'kind', s.failure ->> 'type', s.failure ->> 'message',
        s.failure ->> 'traceback', s.failure ->> 'module',
        (s.failure ->> 'started_at')::timestamptz, s.failure ->> 'worker'
    from settled s
    where s.failure is not null
    on conflict (job, delivery) do nothing
)
select
    s.n, s.state, offpath.micros(s.run_at),
    case when s.grouped then coalesce(s.group_id, s.id::text) end, s.announce,
    s.watched, s.has_undo::int, s.redrives, s.frees
from settled s

-- name: briefly
-- Only for this transaction: a lock that somebody else holds is waited for no longer.
select set_config('lock_timeout', '1s', true)

-- name: jobs_there
-- Which of these jobs exist, locked or not.
select j.id::text
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: free_jobs
-- Locks those of these jobs that nobody else has locked.
select j.id::text
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
order by j.id
for update skip locked

-- name: waits_for_a_job
-- Whether somebody has waited so long for whoever has locked the row of a job: who waits for the
-- end of a transaction because of a row holds the lock of that row's place meanwhile.
select 1
from pg_locks l
where not l.granted
    and l.locktype in ('transactionid', 'tuple')
    and l.waitstart < clock_timestamp() - :seconds::double precision * interval '1 second'
    and exists (
        select
        from pg_locks r
        where r.pid = l.pid
            and r.locktype = 'tuple'
            and r.relation = 'offpath.job'::regclass
            and r.database = (select d.oid from pg_database d where d.datname = current_database())
    )
limit 1

-- name: forget_undo
-- What these jobs did is not to be undone.
with gone as (
    delete from offpath.step s
    where s.job = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and s.kind = 'undo'
)
update offpath.job j
set has_undo = false
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: catch_signals
-- Those of these jobs whose signal is there already do not wait for it.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = 'ready',
    reason = null,
    run_at = (select clock.now from clock),
    blocked_until = null,
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'queued',
            (select clock.now from clock)
        )
    end
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.state = 'blocked'
    and j.reason = 'signal'
    and exists (
        select
        from offpath.signal s
        where s.target = j.wait_target
            and s.event = j.wait_event
            and s.taken_at is null
            and s.expires_at > (select clock.now from clock)
    )
returning j.id::text, offpath.micros(j.run_at)
