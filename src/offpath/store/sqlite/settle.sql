-- part: settled_job
-- The key of a job whose attempt ends, and the fence: only its holder may end it.
    unique_slot = case
        when unique_key is null then null
        when
            not instr(
                unique_states, case when cancel_requested then 'cancelled' else new.value ->> 3 end
            )
            then null
        /* part: kept_key */
    end
from json_each(:batch) as new
where
    offpath_job.id = new.value ->> 0
    and +offpath_job.worker = new.value ->> 1
    and offpath_job.deliveries = new.value ->> 2
    and +offpath_job.state = 'running'
returning
    id, seq, state, group_id, announce, watched, has_undo, redrives,
    unique_key is not null
    and instr(unique_states, 'running')
    and not instr(unique_states, 'scheduled,ready')

-- name: settle_ended
-- Attempts that end their jobs. The fence is in the condition; `+` keeps the planner on the id.
update offpath_job set
    state = case when cancel_requested then 'cancelled' else new.value ->> 3 end,
    worker = null,
    result = case when not cancel_requested then new.value ->> 4 end,
    reason = case when cancel_requested then 'cancelled' else new.value ->> 5 end,
    finished_at = :now,
    expires_at = new.value ->> 6,
    watched = 2 * (watched > 0),
/* part: settled_job */

-- name: settle_waiting
-- Attempts after which the job waits again, unless its cancellation was asked for.
update offpath_job set
    state = case when cancel_requested then 'cancelled' else new.value ->> 3 end,
    worker = null,
    run_at = case when cancel_requested then run_at else coalesce(new.value ->> 4, run_at) end,
    reason = case when cancel_requested then 'cancelled' else new.value ->> 5 end,
    changed_at = :now,
    finished_at = case when cancel_requested then :now end,
    expires_at = case when cancel_requested then new.value ->> 6 end,
    attempt = attempt + case when cancel_requested then 0 else new.value ->> 7 end,
    watched = case when cancel_requested then 2 * (watched > 0) else watched end,
/* part: settled_job */

-- name: settle_blocked
-- Attempts after which the job waits for a signal, unless its cancellation was asked for.
update offpath_job set
    state = case when cancel_requested then 'cancelled' else new.value ->> 3 end,
    worker = null,
    run_at = case when cancel_requested then run_at else coalesce(new.value ->> 4, run_at) end,
    wait_target = case when not cancel_requested then new.value ->> 7 end,
    wait_event = case when not cancel_requested then new.value ->> 8 end,
    wait_since = case when not cancel_requested then :now end,
    called_target = null,
    called_event = null,
    blocked_until = case when not cancel_requested then new.value ->> 9 end,
    reason = case when cancel_requested then 'cancelled' else new.value ->> 5 end,
    changed_at = :now,
    finished_at = case when cancel_requested then :now end,
    expires_at = case when cancel_requested then new.value ->> 6 end,
    watched = case when cancel_requested then 2 * (watched > 0) else watched end,
/* part: settled_job */

-- name: note_faults
-- The faults of jobs that have just died.
update offpath_job set error_key = new.value ->> 'key'
from json_each(:batch) as new
where offpath_job.id = new.value ->> 'id' and +offpath_job.state = 'dead'

-- name: record_failures
-- Attempts that failed, for the history of their jobs.
insert into offpath_failure (job, type, failure)
select value ->> 0, value ->> 1, value ->> 2 from json_each(:failures)

-- name: trim_histories
-- Keeps the last failures of each job.
delete from offpath_failure
where
    job in (select value from json_each(:jobs))
    and seq <= (
        select newer.seq from offpath_failure as newer
        where newer.job = offpath_failure.job
        order by newer.seq desc limit 1 offset :keep
    )

-- name: keyless_running
-- Whether any running job may take its unique key again when it waits.
select 1 from offpath_job
where state = 'running' and unique_key is not null and unique_slot is null
limit 1

-- name: unmark_undo
-- Jobs that succeeded have nothing to undo.
update offpath_job set has_undo = 0
where id in (select value from json_each(:ids))

-- name: forget_undo
delete from offpath_step
where kind = 'undo' and job in (select value from json_each(:ids))

-- name: signals_there
-- Which of these addresses have a signal to take.
select wanted.value ->> 0, wanted.value ->> 1
from json_each(:wanted) as wanted
where
    exists (
        select 1 from offpath_signal as sent
        where
            sent.target = wanted.value ->> 0 and sent.event = wanted.value ->> 1
            and sent.taken_at is null and sent.expires_at > :now
    )

-- name: catch_signals
-- Jobs that need not wait, since the signal is there.
update offpath_job set called_target = new.value ->> 1, called_event = new.value ->> 2
from json_each(:jobs) as new
where offpath_job.id = new.value ->> 0
