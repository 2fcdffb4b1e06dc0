-- name: hold_job
-- Whether a job is still in this hand.
select 1 from offpath_job
where id = :id and +worker = :worker and deliveries = :deliveries and +state = 'running'

-- name: put_step
-- Records the result of a step of a job, which is held, once.
insert into offpath_step (job, kind, name, result, at)
values (:id, 'step', :name, :result, :now)
on conflict (job, kind, name) do nothing

-- name: step
-- What is recorded of one step.
select result from offpath_step where job = :id and kind = 'step' and name = :name

-- name: steps
-- The recorded steps of a job.
select name, result from offpath_step where job = :id and kind = 'step' order by position

-- name: step_records
-- The recorded steps of a job with their times.
select name, result, at from offpath_step where job = :id and kind = 'step' order by position

-- name: progress
-- How far a held job is; no row in the answer when the lease is lost.
update offpath_job set progress = :progress
where id = :id and +worker = :worker and deliveries = :deliveries and +state = 'running'
returning 1

-- name: put_undo
-- Records what undoes a step of a job, which is held, once by name.
insert into offpath_step (job, kind, name, result)
values (:id, 'undo', :name, :undo)
on conflict (job, kind, name) do nothing

-- name: mark_undo
-- This job has something to undo.
update offpath_job set has_undo = 1 where id = :id and has_undo = 0

-- name: undoing
-- Dead and cancelled jobs that have something to undo.
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

-- name: take_undo
-- A failed job has nothing to undo any more; no row when it had nothing.
update offpath_job set has_undo = 0
where id = :id and has_undo = 1 and (state = 'dead' or state = 'cancelled')
returning 1

-- name: forget_steps
-- What a job has recorded is gone.
delete from offpath_step where job = :id
