-- name: fenced
-- Whether a job is still in this hand.
select 1 from offpath_job
where id = :id and +worker = :worker and deliveries = :deliveries and +state = 'running'

-- name: step_put
-- Records something of a job once.
insert into offpath_step (job, kind, name, result)
values (:job, :kind, :name, :result)
on conflict (job, kind, name) do nothing

-- name: step_get
select result from offpath_step where job = :job and kind = :kind and name = :name

-- name: step_list
select name, result from offpath_step where job = :job and kind = 'step' order by position

-- name: undo_mark
update offpath_job set has_undo = 1 where id = :id and has_undo = 0

-- name: undo_unmark
-- Jobs that succeeded have nothing to undo.
update offpath_job set has_undo = 0
where id in (select value from json_each(:jobs))

-- name: undo_forget
delete from offpath_step
where kind = 'undo' and job in (select value from json_each(:jobs))

-- name: undo_list
-- Failed jobs with something to undo.
select id, group_id, (
    select json_group_array(result) from (
        select past.result from offpath_step as past
        where past.job = offpath_job.id and past.kind = 'undo'
        order by past.position
    )
)
from offpath_job
where
    has_undo = 1
    and finished_at is not null
    and (state = 'dead' or state = 'cancelled')
    and (:after is null or id > :after)
order by id
limit :limit

-- name: undo_take
-- A failed job has nothing to undo any more; answers whether it had.
update offpath_job set has_undo = 0
where id = :id and has_undo = 1 and (state = 'dead' or state = 'cancelled')
returning id

-- name: step_forget
delete from offpath_step where job = :job

-- name: step_remove
-- What jobs that are about to go have recorded.
delete from offpath_step
where job in (
    select gone.id from offpath_job as gone
    where gone.seq in (select value from json_each(:jobs))
)

-- name: signal_room
-- How many signals of a target nobody has taken, counted no further than need be.
select count(*) from (
    select 1 from offpath_signal
    where target = :target and taken_at is null and expires_at > :now
    limit :most
)

-- name: signal_put
insert into offpath_signal (id, target, event, payload, sent_at, expires_at)
values (:id, :target, :event, :payload, :now, :expires_at)
on conflict (id) do nothing
returning id

-- name: signal_sleeper
-- Who waits longest for a signal.
select seq from offpath_job
where
    state = 'blocked' and wait_target = :target and wait_event = :event and reason = 'signal'
order by wait_since, seq
limit 1

-- name: signal_first
-- The oldest signal that can be taken.
select position, payload from offpath_signal
where target = :target and event = :event and taken_at is null and expires_at > :now
order by position
limit 1

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

-- name: signal_take
update offpath_signal set taken_at = :now where position = :position

-- name: signal_met
-- A held job has taken the signal that it was woken for.
update offpath_job set called_target = null, called_event = null
where id = :id and called_target = :target and called_event = :event

-- name: signal_called
-- Jobs that need not wait, since the signal is there.
update offpath_job set called_target = new.value ->> 1, called_event = new.value ->> 2
from json_each(:jobs) as new
where offpath_job.id = new.value ->> 0

-- name: signals_left
-- Where jobs have ended without taking the signal that they were woken for.
select target, event from offpath_signal_left limit :limit

-- name: signals_passed_on
delete from offpath_signal_left
where
    (target, event) in (select value ->> 0, value ->> 1 from json_each(:addresses))

-- name: signal_expire
-- Removes signals whose time is over, a bounded number.
delete from offpath_signal
where position in (
    select old.position from offpath_signal as old
    where old.expires_at <= :now
    order by old.expires_at
    limit :limit
)

-- name: signals_over
select 1 from offpath_signal where expires_at <= :now limit 1
