-- name: lock_signals
-- nothing

-- name: signal_room
-- How many signals of a target nobody has taken, counted no further than need be.
select count(*) from (
    select 1 from offpath_signal
    where target = :target and taken_at is null and expires_at > :now
    limit :most
)

-- name: add_signal
-- Keeps a signal; no row in the answer when it is known.
insert into offpath_signal (id, target, event, payload, sent_at, expires_at)
values (:id, :target, :event, :payload, :now, :now + :span)
on conflict (id) do nothing
returning 1

-- name: wake_sleeper
-- The job that waits longest for this signal becomes due, and knows for which it was called.
update offpath_job set
    state = 'ready',
    run_at = :now,
    reason = null,
    called_target = wait_target,
    called_event = wait_event,
    wait_target = null,
    wait_event = null,
    wait_since = null,
    blocked_until = null,
    changed_at = :now,
    unique_slot = case
        when unique_key is null then null
        when not instr(unique_states, 'scheduled,ready') then null
        /* part: kept_key */
    end
where
    seq = (
        select job.seq from offpath_job as job
        where
            job.state = 'blocked' and job.wait_target = :target
            and job.wait_event = :event and job.reason = 'signal'
        order by job.wait_since, job.seq
        limit 1
    )
returning id, task, queue, group_id, attempt, parent, announce

-- name: note_missed
-- nothing

-- name: take_signal
-- Takes the oldest signal.
update offpath_signal set taken_at = :now
where position = (
    select sent.position from offpath_signal as sent
    where
        sent.target = :target and sent.event = :event
        and sent.taken_at is null and sent.expires_at > :now
    order by sent.position
    limit 1
)
returning payload

-- name: met_signal
-- This job, which is held, has taken the signal that it was woken for.
update offpath_job set called_target = null, called_event = null
where id = :id and called_target = :target and called_event = :event
