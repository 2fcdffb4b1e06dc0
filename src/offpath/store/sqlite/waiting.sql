-- name: undo_unmark
-- Jobs that succeeded have nothing to undo.
update offpath_job set has_undo = 0
where id in (select value from json_each(:jobs))

-- name: undo_forget
delete from offpath_step
where kind = 'undo' and job in (select value from json_each(:jobs))

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
