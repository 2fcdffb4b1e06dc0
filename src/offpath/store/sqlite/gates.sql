-- name: known_gates
-- The gates of these ids.
select id, state, deadline from offpath_job_gate
where id in (select value from json_each(:ids))

-- name: add_gates
-- New gates.
insert into offpath_job_gate (id, need, counting, total, deadline)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
from json_each(:batch)
where true
on conflict (id) do nothing

-- name: add_watches
-- Whom new gates watch. What has ended already is counted.
insert into offpath_gate_watch (job, gate, place, early, outcome)
select
    new.value ->> 0, new.value ->> 1, new.value ->> 2, job.id is null,
    case job.state
        when 'succeeded' then 'succeeded' when 'dead' then 'failed' when 'cancelled' then 'failed'
    end
from json_each(:batch) as new
left join offpath_job as job on job.id = new.value ->> 0
where true
on conflict (job, gate) do nothing

-- name: watch_jobs
-- Watched jobs know that they are.
update offpath_job set watched = case when finished_at is null then 1 else 2 end
where id in (select value from json_each(:ids)) and watched = 0

-- name: recount_gates
-- The counts of gates that were just made.
update offpath_job_gate set
    succeeded = (
        select count(*) from offpath_gate_watch as seen
        where seen.gate = offpath_job_gate.id and seen.outcome = 'succeeded'
    ),
    failed = (
        select count(*) from offpath_gate_watch as seen
        where seen.gate = offpath_job_gate.id and seen.outcome = 'failed'
    )
where id in (select value from json_each(:ids))
returning id, need, counting, total, succeeded, failed

-- name: count_watches
-- Notes how watched jobs ended, for each open gate once.
update offpath_gate_watch set outcome = ended.value ->> 1
from json_each(:ends) as ended
where
    offpath_gate_watch.job = ended.value ->> 0
    and offpath_gate_watch.outcome is null
    and exists (
        select 1 from offpath_job_gate as watching
        where watching.id = offpath_gate_watch.gate and watching.state = 'open'
    )
returning job, gate, outcome

-- name: count_gates
-- Adds to the counts of gates.
update offpath_job_gate set
    succeeded = succeeded + (counted.value ->> 1),
    failed = failed + (counted.value ->> 2)
from json_each(:batch) as counted
where offpath_job_gate.id = counted.value ->> 0
returning id, need, counting, total, succeeded, failed

-- name: decide_gates
-- Gates are open no more.
update offpath_job_gate set state = decided.value ->> 1
from json_each(:batch) as decided
where offpath_job_gate.id = decided.value ->> 0 and offpath_job_gate.state = 'open'

-- name: release_gated
-- Lets the jobs of gates go: what counts from now counts from this moment.
update offpath_job set
    run_at = case when gated_delay is null then run_at else :now + gated_delay end,
    state = case
        when case when gated_delay is null then run_at else :now + gated_delay end <= :now
            then 'ready'
        else 'scheduled'
    end,
    deadline = coalesce(deadline, :now + deadline_in),
    reason = null,
    gate_left = 1,
    blocked_until = null,
    changed_at = :now,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'scheduled,ready') then null
        when unique_slot is not null then unique_slot
        when
            (unique_until is null or unique_until > :now)
            and not exists (
                select 1 from offpath_job as other
                where other.unique_slot = offpath_job.unique_key
            )
            then unique_key
    end
where
    gate in (select value from json_each(:ids))
    and +state = 'blocked'
    and reason = 'gate'
returning announce

-- name: end_gated
-- The jobs of gates that cannot fire any more die.
update offpath_job set
    state = 'dead',
    reason = :reason,
    finished_at = :now,
    expires_at = :expires_at,
    blocked_until = null,
    watched = 2 * (watched > 0),
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'dead') then null
        when unique_slot is not null then unique_slot
        when
            (unique_until is null or unique_until > :now)
            and not exists (
                select 1 from offpath_job as other
                where other.unique_slot = offpath_job.unique_key
            )
            then unique_key
    end
where
    gate in (select value from json_each(:gates))
    and +state = 'blocked'
    and reason = 'gate'
returning
    id, seq, task, queue, group_id, attempt, parent, announce, watched, redrives, reason, gate

-- name: uncount_gates
-- Failed jobs that are put back are counted no more in gates that are still open.
update offpath_job_gate set failed = failed - (
    select count(*) from offpath_gate_watch as seen
    where
        seen.gate = offpath_job_gate.id
        and seen.job in (select value from json_each(:ids))
        and seen.outcome = 'failed'
)
where
    state = 'open'
    and id in (
        select seen.gate from offpath_gate_watch as seen
        where seen.job in (select value from json_each(:ids))
    )

-- name: uncount_watches
-- Forgets how these jobs failed, where the gate is open: it has counted them no more before.
update offpath_gate_watch set outcome = null
where
    job in (select value from json_each(:ids))
    and outcome = 'failed'
    and exists (
        select 1 from offpath_job_gate as watching
        where watching.id = offpath_gate_watch.gate and watching.state = 'open'
    )

-- name: lock_gates
-- nothing
-- Nobody else writes meanwhile.

-- name: drop_watches
-- What the gates have watched that go with the last job that they held.
delete from offpath_gate_watch
where
    gate in (select value from json_each(:ids))
    and not exists (
        select 1 from offpath_job as held where held.gate = offpath_gate_watch.gate
    )

-- name: drop_gates
-- A gate goes with the last job that it held.
delete from offpath_job_gate
where
    id in (select value from json_each(:ids))
    and not exists (select 1 from offpath_job as held where held.gate = offpath_job_gate.id)

-- name: note_counted
-- These ended jobs are counted wherever they are watched.
update offpath_job set watched = 2 where id in (select value from json_each(:ids))
