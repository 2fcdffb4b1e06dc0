-- name: hold_jobs
-- What an operator's call needs to know of some jobs before it changes them.
select
    id, task, queue, group_id, state, attempt, parent,
    exists (
        select 1 from offpath_group as counting where counting.id = offpath_job.group_id
    ),
    announce, watched, redrives, has_undo, gate, gate is not null and gate_left = 0
from offpath_job
where id in (select value from json_each(:ids))
order by id

-- name: cancel_waiting
-- Waiting jobs end as cancelled.
update offpath_job set
    state = 'cancelled',
    reason = 'cancelled',
    finished_at = :now,
    expires_at = :now + :keep,
    watched = 2 * (watched > 0),
    blocked_until = null,
    wait_target = null,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'cancelled') then null
        /* part: kept_key */
    end
where
    id in (select value from json_each(:ids)) and finished_at is null and +state <> 'running'

-- name: cancel_running
-- Running jobs are asked to end.
update offpath_job set cancel_requested = 1
where
    id in (select value from json_each(:ids)) and +state = 'running' and cancel_requested = 0

-- name: lapse_keys
-- Takes unique keys away from holders whose period has passed, for jobs that want them back.
update offpath_job set unique_slot = null
where
    unique_until <= :now
    and unique_slot in (
        select wanting.unique_key from offpath_job as wanting
        where
            wanting.id in (select value from json_each(:ids))
            and wanting.unique_key is not null
            and wanting.unique_slot is null
    )

-- name: redrive
-- Dead and cancelled jobs start afresh, unless another job holds the unique key that they would
-- hold; waiting ones get another run time, and wait for nothing else.
update or ignore offpath_job set
    run_at = :now + (new.value ->> 'delay'),
    state = case when new.value ->> 'delay' <= 0 then 'ready' else 'scheduled' end,
    attempt = case when finished_at is null then attempt else 1 end,
    losses = case when finished_at is null then losses else 0 end,
    suspected = case when finished_at is null then suspected end,
    redrives = redrives + (finished_at is not null),
    redriven_at = case when finished_at is null then redriven_at else :now end,
    error_key = null,
    changed_at = case when finished_at is null then changed_at else :now end,
    cancel_requested = 0,
    started_at = case when finished_at is null then started_at end,
    finished_at = null,
    expires_at = null,
    deadline = case when finished_at is null then deadline else :now + deadline_in end,
    reason = null,
    result = null,
    progress = case when finished_at is null then progress end,
    watched = case when finished_at is null then watched else watched > 0 end,
    gate_left = case when finished_at is null then gate_left else 1 end,
    unique_slot = case
        when finished_at is null then unique_slot
        when unique_key is null then null
        when not instr(unique_states, 'scheduled,ready') then null
        when unique_slot is not null then unique_slot
        when unique_until is null or unique_until > :now then unique_key
    end
from json_each(:batch) as new
where
    offpath_job.id = new.value ->> 'id'
    and (
        +offpath_job.state = 'scheduled' or +offpath_job.state = 'ready'
        or +offpath_job.state = 'dead' or +offpath_job.state = 'cancelled'
    )
    and (
        finished_at is null
        or not instr(unique_states, 'scheduled,ready')
        or not exists (
            select 1 from offpath_job as other
            where other.unique_slot = offpath_job.unique_key and other.seq <> offpath_job.seq
        )
    )
returning id, state, attempt

-- name: amend
-- Waiting jobs get other terms. A blocked one keeps its place in line but for its priority; the end
-- of a wait for a signal comes of the deadline that the job had then.
update offpath_job set
    priority = coalesce(:priority, priority),
    queue = coalesce(:queue, queue),
    run_at = coalesce(:run_at, run_at),
    deadline = coalesce(:deadline, deadline),
    state = case
        when :run_at is null then state
        when :run_at <= :now then 'ready'
        else 'scheduled'
    end,
    reason = case when :run_at is null then reason end,
    blocked_until = case
        when state <> 'blocked' then null
        when :deadline is null then blocked_until
        else min(
            :deadline,
            coalesce(
                (
                    select held.deadline from offpath_job_gate as held
                    where held.id = gate and reason = 'gate'
                ),
                :deadline
            )
        )
    end,
    turn = null,
    turn_at = null
where
    id in (select value from json_each(:ids))
    and finished_at is null
    and (
        +state = 'scheduled' or +state = 'ready'
        or (
            +state = 'blocked' and :queue is null and :run_at is null
            and (:deadline is null or reason <> 'signal')
        )
    )
returning id, state, queue

-- name: expired_jobs
-- Ended jobs whose time to be kept has passed, and that have nothing left to undo. Those stay that a
-- gate watches or watched whose own jobs have not all ended, or died at it and may be put back: these
-- may ask for their results.
select
    id, group_id,
    exists (
        select 1 from offpath_group as counting where counting.id = offpath_job.group_id
    ),
    gate
from offpath_job
where
    expires_at <= :now
    and not (has_undo = 1 and (state = 'dead' or state = 'cancelled'))
    and not exists (
        select 1 from offpath_gate_watch as seen
        cross join offpath_job as waiting on waiting.gate = seen.gate
        where
            seen.job = offpath_job.id
            and (
                waiting.finished_at is null
                or (
                    waiting.gate_left = 0
                    and waiting.state = 'dead' and waiting.reason = 'unsatisfiable'
                )
            )
    )
order by expires_at
limit :limit

-- name: remove_failures
-- The histories of jobs that are about to go.
delete from offpath_failure
where job in (
    select gone.seq from offpath_job as gone
    where gone.id in (select value from json_each(:ids))
)

-- name: remove_steps
-- What jobs that are about to go have recorded.
delete from offpath_step where job in (select value from json_each(:ids))

-- name: remove_jobs
-- These jobs go.
delete from offpath_job where id in (select value from json_each(:ids))

-- name: prune_claims
-- Forgets claims whose time has passed.
delete from offpath_claim
where key in (
    select key from offpath_claim where expires_at <= :now order by expires_at limit :limit
)

-- name: prune_workers
-- Forgets workers that are gone since long; what they still hold is rescued without their row.
delete from offpath_worker
where id in (select id from offpath_worker where gone_at <= :now - :keep limit :limit)

-- name: orphans
-- Running jobs whose worker's lease has ended or whose worker is gone.
select
    id, task, queue, input, worker, deliveries, attempt, options, group_id, priority, run_at,
    enqueued_at, losses, parent, dependents, deadline, limit_key, headers, cancel_requested,
    announce, watched, redrives,
    exists (
        select 1 from offpath_group as counting where counting.id = offpath_job.group_id
    ),
    suspected, alone, started_at is not null,
    -- Out of touch: the lease of a worker ran out whose death could have been seen, and was not.
    exists (
        select 1 from offpath_worker as silent
        where silent.id = offpath_job.worker and silent.presence = 1 and silent.gone_at is null
    ),
    exists (
        select 1 from offpath_worker as past
        where past.id = offpath_job.worker and past.gone_at is not null
    )
from offpath_job
where
    state = 'running'
    and worker not in (select alive.id from offpath_worker as alive where alive.expires_at > :now)
    and worker not in (select value from json_each(:kept))
order by worker, seq
limit :limit

-- name: rescue
-- Moves orphans on; one whose unique key another of them takes is passed over. (A number of losses that
-- nobody writes must not keep its job among the orphans for ever, before all others.)
update or ignore offpath_job set
    state = case
        when new.value ->> 'state' = 'ready' and run_at > :now then 'scheduled'
        else new.value ->> 'state'
    end,
    losses = max(losses, 0) + (new.value ->> 'begun'),
    suspected = new.value ->> 'suspected',
    alone = null,
    worker = null,
    changed_at = :now,
    reason = new.value ->> 'reason',
    finished_at = case when new.value ->> 'ended' then :now end,
    expires_at = case when new.value ->> 'ended' then :now + :keep end,
    watched = case when new.value ->> 'ended' then 2 * (watched > 0) else watched end,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, new.value ->> 'state') then null
        /* part: kept_key */
    end
from json_each(:batch) as new
where offpath_job.id = new.value ->> 'id'
returning id

-- name: clear_suspects
-- Those of a crash that were not in the half that crashed again.
update offpath_job set suspected = ''
where
    suspected in (select value from json_each(:crashes)) and finished_at is null
    and +state <> 'running'

-- name: add_failures
-- Failures for the histories of their jobs, of this moment. The type is only for filters; the
-- document keeps it exactly.
insert into offpath_failure (job, type, failure)
select
    failed.seq, new.value ->> '$.failure.type',
    json_set(
        new.value -> 'failure',
        '$.at',
        strftime('%Y-%m-%dT%H:%M:%S', :now / 1000000, 'unixepoch')
        || printf('.%06dZ', :now % 1000000)
    )
from json_each(:batch) as new
cross join offpath_job as failed on failed.id = new.value ->> 'id'

-- name: trim_failures
-- Only the last failures of a job are kept.
delete from offpath_failure
where
    job in (
        select old.seq from offpath_job as old where old.id in (select value from json_each(:ids))
    )
    and seq <= (
        select newer.seq from offpath_failure as newer
        where newer.job = offpath_failure.job
        order by newer.seq desc limit 1 offset :keep
    )

-- name: late_workers
-- Workers whose lease has ended and that hold nothing.
select id from offpath_worker as worker
where
    expires_at <= :now
    and gone_at is null
    and not exists (
        select 1 from offpath_job as job where job.state = 'running' and job.worker = worker.id
    )

-- name: note_gone_workers
-- Workers that are late and hold nothing are gone.
update offpath_worker as worker set gone_at = :now
where
    expires_at <= :now
    and gone_at is null
    and not exists (
        select 1 from offpath_job as job where job.state = 'running' and job.worker = worker.id
    )
