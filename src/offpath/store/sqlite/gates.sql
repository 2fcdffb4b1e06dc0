-- name: known_gates
-- The gates of these ids.
select id, state, deadline from offpath_job_gate
where id in (select value from json_each(:ids))

-- name: add_gates
-- New gates, with what of the watched jobs has ended already. One that is there stays as it is.
insert into offpath_job_gate (id, deadline, need, total, succeeded, failed, counting)
select
    value ->> 'id', :now + (value ->> 'timeout'), value ->> 'need', value ->> 'total',
    value ->> 'succeeded', value ->> 'failed', value ->> 'counting'
from json_each(:batch)
where true
on conflict (id) do nothing
returning id

-- name: add_watches
-- What new gates watch. Of a job that has ended it says how, of one that is not there "early".
insert into offpath_gate_watch (job, gate, place, early, outcome, led)
select
    watched.value ->> 0, new.value ->> 'id', watched.key,
    watched.value ->> 1 is 'early', nullif(watched.value ->> 1, 'early'), new.value ->> 'led'
from json_each(:batch) as new
cross join json_each(new.value, '$.jobs') as watched
where true
on conflict (job, gate) do nothing

-- name: gates_led_on
-- The open gates that watch these jobs with all that they lead to.
select seen.gate, seen.job
from offpath_gate_watch as seen
cross join offpath_job_gate as gate on gate.id = seen.gate
where
    seen.job in (select value from json_each(:ids))
    and seen.led = 1
    and seen.outcome is null
    and gate.state = 'open'

-- name: lead_on
-- Gates watch these jobs, too, with all that they lead to. One that has ended counts.
insert into offpath_gate_watch (job, gate, place, led, outcome)
select
    new.value ->> 'job', new.value ->> 'gate', gate.total + new.key, 1,
    case
        when job.state = 'succeeded' then 'succeeded'
        when job.state = 'dead' or job.state = 'cancelled' then 'failed'
    end
from json_each(:batch) as new
cross join offpath_job_gate as gate on gate.id = new.value ->> 'gate'
cross join offpath_job as job on job.id = new.value ->> 'job'
where job.gate is not gate.id or job.gate_left = 1
on conflict (job, gate) do nothing

-- name: sum_watches
-- Gates that watch more jobs than before wait for all of them, and count those that have ended.
update offpath_job_gate set (total, need, succeeded, failed) = (
    select
        count(*), count(*),
        count(*) filter (where seen.outcome = 'succeeded'),
        count(*) filter (where seen.outcome = 'failed')
    from offpath_gate_watch as seen where seen.gate = offpath_job_gate.id
)
where id in (select value from json_each(:ids))

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
returning gate, outcome

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
update offpath_job_gate set state = decided.value ->> 'state'
from json_each(:batch) as decided
where offpath_job_gate.id = decided.value ->> 'id' and offpath_job_gate.state = 'open'

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
        /* part: kept_key */
    end
where
    gate in (select value from json_each(:ids))
    and +state = 'blocked'
    and reason = 'gate'
returning
    id, task, queue, group_id, 'blocked', state, attempt, parent, 1, announce, watched, redrives,
    null

-- name: end_gated
-- The jobs of gates that cannot fire any more die.
update offpath_job set
    state = 'dead',
    reason = (
        select iif(gate.state = 'timed_out', 'gate_timeout', 'unsatisfiable')
        from offpath_job_gate as gate
        where gate.id = offpath_job.gate
    ),
    finished_at = :now,
    expires_at = :now + :keep,
    blocked_until = null,
    watched = 2 * (watched > 0),
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'dead') then null
        /* part: kept_key */
    end
where
    gate in (select value from json_each(:ids))
    and +state = 'blocked'
    and reason = 'gate'
returning
    id, task, queue, group_id, 'blocked', state, attempt, parent, 1, announce, watched, redrives,
    reason

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
-- Forgets how these jobs failed: an open gate has counted them no more before, one that cannot fire
-- is counted afresh.
update offpath_gate_watch set outcome = null
where
    job in (select value from json_each(:ids))
    and outcome = 'failed'
    and exists (
        select 1 from offpath_job_gate as watching
        where
            watching.id = offpath_gate_watch.gate
            and (watching.state = 'open' or watching.state = 'unsatisfiable')
    )

-- name: lock_gates
-- What these gates are, and those that have yet to count jobs of "watching". Nobody else writes
-- meanwhile.
select id, state from offpath_job_gate
where
    id in (select value from json_each(:ids))
    or id in (
        select seen.gate from offpath_gate_watch as seen
        where seen.job in (select value from json_each(:watching)) and seen.outcome is null
    )

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

-- name: wait_at_gates
-- nothing
-- A new job is written with the deadline of its gate.

-- name: note_behind
-- nothing
-- No job was skipped: nobody else holds one.

-- name: behind_gates
-- Gates that have fired and hold a job still, as workers of the version before left them.
select id, state from offpath_job_gate
where id in (select value from json_each(:fired)) and state = 'fired'
limit :limit

-- name: jobs_in_line
-- These jobs, and those that died at gates over them along the chain.
with recursive line (job) as (
    select id from offpath_job where id in (select value from json_each(:ids))
    union
    select waiting.id
    from line
    cross join offpath_gate_watch as seen on seen.job = line.job
    cross join offpath_job_gate as over on over.id = seen.gate and over.state = 'unsatisfiable'
    cross join offpath_job as waiting on waiting.gate = over.id and waiting.gate_left = 0
)
select job from line

-- name: hold_free_live
-- Those of these jobs that have not ended. Nobody else holds one.
select 1 from offpath_job where id in (select value from json_each(:ids)) and finished_at is null

-- name: lock_over_line
-- The gates over these jobs that may be open from now on, and what they are. Nobody else writes
-- meanwhile.
select id, state from offpath_job_gate
where
    id in (
        select seen.gate from offpath_gate_watch as seen
        where seen.job in (select value from json_each(:ids))
        union
        select waiting.gate from offpath_job as waiting
        where
            waiting.id in (select value from json_each(:ids))
            and waiting.gate is not null and waiting.gate_left = 0
    )
    and (state = 'open' or state = 'unsatisfiable')

-- name: recount_gates
-- Gates that cannot fire: those of these jobs, and these. They are counted by the jobs that they watch
-- as they are now; of one that is gone counts what was counted.
select
    gate.id, gate.need, gate.counting, gate.total,
    count(*) filter (
        where iif(job.id is null, seen.outcome = 'succeeded', job.state = 'succeeded')
    ),
    count(*) filter (
        where case
            when job.id is not null then job.state = 'dead' or job.state = 'cancelled'
            else coalesce(seen.outcome = 'failed', seen.early = 0)
        end
    )
from offpath_job_gate as gate
cross join offpath_gate_watch as seen on seen.gate = gate.id
left join offpath_job as job on job.id = seen.job
where
    gate.id in (
        select other.gate from offpath_gate_watch as other
        where other.job in (select value from json_each(:ids))
        union
        select value from json_each(:gates)
    )
    and gate.state = 'unsatisfiable'
group by gate.id

-- name: reopen_gates
-- These gates have new counts; those that can fire are open again, for as long as they were at first.
update offpath_job_gate set
    state = iif(new.value ->> 'opens', 'open', state),
    succeeded = new.value ->> 'succeeded',
    failed = new.value ->> 'failed',
    deadline = iif(
        new.value ->> 'opens',
        :now + deadline - (
            select min(job.enqueued_at) from offpath_job as job where job.gate = offpath_job_gate.id
        ),
        deadline
    )
from json_each(:batch) as new
where offpath_job_gate.id = new.value ->> 'id'

-- name: recount_watches
-- Notes how the jobs that these gates watch have ended, as recount_gates counts them.
update offpath_gate_watch set outcome = noted.outcome
from (
    select seen.job, seen.gate, case
        when job.id is null then coalesce(seen.outcome, iif(seen.early = 0, 'failed', null))
        when job.state = 'succeeded' then 'succeeded'
        when job.state = 'dead' or job.state = 'cancelled' then 'failed'
    end as outcome
    from offpath_gate_watch as seen
    left join offpath_job as job on job.id = seen.job
    where seen.gate in (select value from json_each(:ids))
) as noted
where
    offpath_gate_watch.job = noted.job
    and offpath_gate_watch.gate = noted.gate
    and offpath_gate_watch.outcome is not noted.outcome

-- name: died_at_gates
-- The jobs that died at these gates.
select
    id, task, queue, group_id, state, attempt, parent,
    exists (
        select 1 from offpath_group as counting where counting.id = offpath_job.group_id
    ),
    announce, watched, redrives, has_undo, gate, 1
from offpath_job
where
    gate in (select value from json_each(:ids))
    and gate_left = 0
    and +state = 'dead'
    and reason = 'unsatisfiable'
order by id

-- name: wait_again
-- Ended jobs wait afresh at their gates, unless another job holds the unique key that they would hold.
update or ignore offpath_job set
    state = 'blocked',
    reason = 'gate',
    run_at = :now + (new.value ->> 'delay'),
    gated_delay = iif(new.value ->> 'delay' > 0, nullif(gated_delay, 0), gated_delay),
    blocked_until = (
        select held.deadline from offpath_job_gate as held where held.id = offpath_job.gate
    ),
    deadline = null,
    attempt = 1,
    losses = 0,
    suspected = null,
    redrives = redrives + 1,
    redriven_at = :now,
    error_key = null,
    changed_at = :now,
    cancel_requested = 0,
    watched = watched > 0,
    progress = null,
    result = null,
    started_at = null,
    finished_at = null,
    expires_at = null,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'blocked') then null
        when unique_slot is not null then unique_slot
        when unique_until is null or unique_until > :now then unique_key
    end
from json_each(:batch) as new
where
    offpath_job.id = new.value ->> 'id'
    and (+offpath_job.state = 'dead' or +offpath_job.state = 'cancelled')
    and (
        not instr(coalesce(unique_states, ''), 'blocked')
        or not exists (
            select 1 from offpath_job as other
            where other.unique_slot = offpath_job.unique_key and other.seq <> offpath_job.seq
        )
    )
returning id
