-- name: jobs_known
-- What an operator's call needs to know of some jobs before it changes them.
select
    id, seq, task, queue, group_id, state, attempt, parent, announce, watched, redrives, has_undo
from offpath_job
where id in (select value from json_each(:ids))
order by id

-- name: cancel_waiting
-- Waiting jobs end as cancelled.
update offpath_job set
    state = 'cancelled',
    reason = 'cancelled',
    finished_at = :now,
    expires_at = :expires_at,
    watched = 2 * (watched > 0),
    blocked_until = null,
    wait_target = null,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'cancelled') then null
        when unique_slot is not null then unique_slot
        when
            (unique_until is null or unique_until > :now)
            and not exists (
                select 1 from offpath_job as other
                where other.unique_slot = offpath_job.unique_key
            )
            then unique_key
    end
where seq in (select value from json_each(:jobs))

-- name: cancel_running
-- Running jobs are asked to end.
update offpath_job set cancel_requested = 1
where seq in (select value from json_each(:jobs)) and cancel_requested = 0

-- name: redrive_waiting
-- Waiting jobs get another run time, and wait for nothing else.
update offpath_job set
    run_at = new.value ->> 1,
    reason = null,
    state = case when new.value ->> 1 <= :now then 'ready' else 'scheduled' end
from json_each(:jobs) as new
where offpath_job.seq = new.value ->> 0

-- name: redrive_ended
-- Ended jobs are put back as fresh, unless another job holds the unique key that they would hold.
update or ignore offpath_job set
    run_at = new.value ->> 1,
    state = case when new.value ->> 1 <= :now then 'ready' else 'scheduled' end,
    attempt = 1,
    losses = 0,
    suspected = null,
    redrives = redrives + 1,
    changed_at = :now,
    cancel_requested = 0,
    started_at = null,
    finished_at = null,
    expires_at = null,
    deadline = :now + deadline_in,
    reason = null,
    result = null,
    progress = null,
    watched = watched > 0,
    gate_left = 1,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'scheduled,ready') then null
        when unique_slot is not null then unique_slot
        when unique_until is null or unique_until > :now then unique_key
    end
from json_each(:jobs) as new
where
    offpath_job.seq = new.value ->> 0
    and (
        not instr(unique_states, 'scheduled,ready')
        or not exists (
            select 1 from offpath_job as other
            where other.unique_slot = offpath_job.unique_key and other.seq <> offpath_job.seq
        )
    )
returning id

-- name: slot_lapsed
-- Takes unique keys away from holders whose period has passed, for jobs that want them back.
update offpath_job set unique_slot = null
where
    unique_until <= :now
    and unique_slot in (
        select wanting.unique_key from offpath_job as wanting
        where
            wanting.seq in (select value from json_each(:jobs))
            and wanting.unique_key is not null
            and wanting.unique_slot is null
    )

-- name: job_remove
delete from offpath_job where seq in (select value from json_each(:jobs))

-- name: failure_remove
delete from offpath_failure where job in (select value from json_each(:jobs))

-- name: orphans
-- Running jobs whose worker's lease has ended or whose worker is gone.
select
    id, task, queue, input, worker, deliveries, attempt, options, group_id, priority, run_at,
    enqueued_at, losses, parent, dependents, deadline, limit_key, seq, cancel_requested, announce,
    watched, redrives, suspected, alone, started_at is not null,
    -- Out of touch: the lease of a worker ran out whose death could have been seen, and was not.
    exists (
        select 1 from offpath_worker as silent
        where silent.id = offpath_job.worker and silent.presence = 1 and silent.gone_at is null
    )
from offpath_job
where
    state = 'running'
    and worker not in (select alive.id from offpath_worker as alive where alive.expires_at > :now)
    and worker not in (select value from json_each(:kept))
order by worker, seq
limit :limit

-- name: rescue
-- Moves orphans on; one whose unique key another of them takes is passed over.
update or ignore offpath_job set
    state = new.value ->> 1,
    losses = losses + (new.value ->> 4),
    suspected = new.value ->> 5,
    alone = null,
    worker = null,
    changed_at = :now,
    reason = new.value ->> 2,
    finished_at = case when new.value ->> 3 then :now end,
    expires_at = case when new.value ->> 3 then :expires_at end,
    watched = case when new.value ->> 3 then 2 * (watched > 0) else watched end,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, new.value ->> 1) then null
        when unique_slot is not null then unique_slot
        when
            (unique_until is null or unique_until > :now)
            and not exists (
                select 1 from offpath_job as other
                where other.unique_slot = offpath_job.unique_key
            )
            then unique_key
    end
from json_each(:batch) as new
where offpath_job.seq = new.value ->> 0
returning seq

-- name: workers_gone
-- Workers whose lease has ended and that hold nothing.
select id from offpath_worker as worker
where
    expires_at <= :now
    and gone_at is null
    and not exists (
        select 1 from offpath_job as job where job.state = 'running' and job.worker = worker.id
    )

-- name: workers_leave
update offpath_worker set gone_at = :now
where id in (select value from json_each(:ids))

-- name: workers_forget
-- Removes workers that are gone since long; what they still hold is rescued without their row.
delete from offpath_worker
where id in (select id from offpath_worker where gone_at <= :before limit :limit)

-- name: expired
-- Ended jobs whose time to be kept has passed, and that have nothing left to undo. Those stay that a
-- gate watches or watched whose own jobs have not all ended: these may ask for their results.
select seq, group_id from offpath_job
where
    expires_at <= :now
    and not (has_undo = 1 and (state = 'dead' or state = 'cancelled'))
    and not exists (
        select 1 from offpath_gate_watch as seen
        cross join offpath_job as waiting on waiting.gate = seen.gate
        where seen.job = offpath_job.id and waiting.finished_at is null
    )
order by expires_at
limit :limit

-- name: claim_prune
-- Forgets claims whose time has passed.
delete from offpath_claim
where key in (
    select key from offpath_claim where expires_at <= :now order by expires_at limit :limit
)
