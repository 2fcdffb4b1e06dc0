-- part: waits_over
-- True if there is something to give up, to repair or to remove.
exists (select 1 from offpath_job as job where job.state = 'blocked' and job.blocked_until <= :now)
or exists (
    select 1 from offpath_job as job
    where
        job.finished_at is null and job.deadline <= :now
        and (+job.state = 'scheduled' or +job.state = 'ready')
)
or exists (
    select 1 from offpath_job as job where job.watched = 1 and job.finished_at is not null
)
or exists (select 1 from offpath_signal as signal where signal.expires_at <= :now)
or exists (select 1 from offpath_signal_left)

-- name: missed_signals
-- Where jobs have ended without taking the signal that they were woken for, and whether it is there
-- for the next one. Each is told once.
delete from offpath_signal_left
where
    (target, event) in (
        select waiting.target, waiting.event from offpath_signal_left as waiting limit :limit
    )
returning null, target, event, exists (
    select 1 from offpath_signal as sent
    where
        sent.target = offpath_signal_left.target and sent.event = offpath_signal_left.event
        and sent.taken_at is null and sent.expires_at > :now
)

-- name: found_sleeper
-- nothing
-- It is not told again.

-- name: due_blocked
-- Blocked jobs that are up, with their gates.
select job.id, job.gate, gate.state
from offpath_job as job
left join offpath_job_gate as gate on gate.id = job.gate
where job.state = 'blocked' and job.blocked_until <= :now
order by job.blocked_until, job.seq
limit :limit

-- name: due_queued
-- Queued jobs whose deadline has passed. Those that run are walked past: they are few, and their
-- worker ends them.
select id from offpath_job
where
    finished_at is null and deadline <= :now
    and (+state = 'scheduled' or +state = 'ready')
order by deadline, seq
limit :limit

-- name: uncounted
-- Watched jobs whose end a worker of the version before has not counted.
select id, case state when 'succeeded' then 1 else -1 end from offpath_job
where watched = 1 and finished_at is not null
order by seq
limit :limit

-- name: expire_signals
-- Signals whose time is over are forgotten.
delete from offpath_signal
where position in (
    select old.position from offpath_signal as old
    where old.expires_at <= :now
    order by old.expires_at
    limit :limit
)

-- name: lock_gates_of
-- nothing
-- Nobody else writes meanwhile.

-- name: time_out_gates
-- The gates of these jobs whose time is over.
update offpath_job_gate set state = 'timed_out'
where
    state = 'open'
    and deadline <= :now
    and id in (
        select waiting.gate from offpath_job as waiting
        where
            waiting.id in (select value from json_each(:ids))
            and +waiting.state = 'blocked'
            and waiting.reason = 'gate'
            and (waiting.deadline is null or waiting.deadline > :now)
    )

-- name: judge_waits
-- What becomes of these blocked or queued jobs: with their deadline or with their gate they die,
-- with their wait for a signal they become due.
select judged.id, judged.fate, judged.attempt, judged.deliveries
from (
    select waiting.id, waiting.attempt, waiting.deliveries, case
        when waiting.deadline <= :now then 'deadline'
        when waiting.state <> 'blocked' then null
        when waiting.reason = 'signal' then 'woken'
        when waiting.reason = 'gate' and coalesce(gate.state, 'timed_out') = 'timed_out'
            then 'gate_timeout'
        when waiting.reason = 'gate' and gate.state = 'unsatisfiable' then 'unsatisfiable'
    end as fate
    from offpath_job as waiting
    left join offpath_job_gate as gate on gate.id = waiting.gate
    where
        waiting.id in (select value from json_each(:ids))
        and waiting.finished_at is null
        and +waiting.state <> 'running'
) as judged
where judged.fate is not null

-- name: give_up
-- Ends what these jobs wait for, as it was judged. One whose unique key another of them takes is
-- passed over.
update or ignore offpath_job set
    state = case judged.value ->> 'fate' when 'woken' then 'ready' else 'dead' end,
    reason = nullif(judged.value ->> 'fate', 'woken'),
    run_at = case judged.value ->> 'fate' when 'woken' then :now else run_at end,
    finished_at = case when judged.value ->> 'fate' <> 'woken' then :now end,
    expires_at = case when judged.value ->> 'fate' <> 'woken' then :now + :keep end,
    blocked_until = null,
    wait_target = null,
    wait_event = case when judged.value ->> 'fate' <> 'woken' then wait_event end,
    wait_since = case when judged.value ->> 'fate' <> 'woken' then wait_since end,
    called_target = case when judged.value ->> 'fate' <> 'woken' then called_target end,
    called_event = case when judged.value ->> 'fate' <> 'woken' then called_event end,
    changed_at = case judged.value ->> 'fate' when 'woken' then :now else changed_at end,
    watched = case when judged.value ->> 'fate' <> 'woken' then 2 * (watched > 0) else watched end,
    unique_slot = case
        when unique_key is null then null
        when
            not instr(
                unique_states, case judged.value ->> 'fate' when 'woken' then 'scheduled,ready' else 'dead' end
            )
            then null
        /* part: kept_key */
    end
from json_each(:batch) as judged
where offpath_job.id = judged.value ->> 'id'
returning
    id, task, queue, group_id, state, attempt, parent,
    exists (
        select 1 from offpath_group as counting where counting.id = offpath_job.group_id
    ),
    announce, watched, redrives, reason

-- name: anything_over
-- A row if there is something to give up, to repair or to remove: one look into each small index.
select 1
where
    /* part: waits_over */

-- name: glance
-- If workers may be gone, and if there may be waits to give up or to repair: one look into what is small
-- while all is well; what the passes do is asked by themselves.
select
    exists (
        select 1 from offpath_worker as late where late.expires_at <= :now and late.gone_at is null
    )
    or exists (
        select 1 from offpath_job as job
        where
            job.state = 'running'
            and job.worker not in (
                select alive.id from offpath_worker as alive where alive.expires_at > :now
            )
    ),
    /* part: waits_over */
    or exists (select 1 from offpath_group as closing where closing.to_close = 1)
    or exists (
        select 1 from offpath_job as job
        where
            job.has_undo = 1
            and job.finished_at is not null
            and (job.state = 'dead' or job.state = 'cancelled')
    ),
    -- When scheduled jobs are due is asked lane by lane, which is the lease's business.
    not :work
    or exists (select 1 from offpath_job as job where job.state = 'ready')
    or exists (select 1 from offpath_job as job where job.state = 'scheduled'),
    exists (
        select 1 from offpath_schedule as schedule
        where schedule.paused = 0 and schedule.next_at <= :soon
    )
