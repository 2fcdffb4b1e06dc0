-- name: hold_job
-- Whether a job is still in this hand.
select 1 from offpath_job
where id = :id and +worker = :worker and deliveries = :deliveries and +state = 'running'

-- name: put_step
-- Records the result of a step of a job, which is held, once.
insert into offpath_step (job, kind, name, result)
values (:id, 'step', :name, :result)
on conflict (job, kind, name) do nothing

-- name: step
-- What is recorded of one step.
select result from offpath_step where job = :id and kind = 'step' and name = :name

-- name: steps
-- The recorded steps of a job.
select name, result from offpath_step where job = :id and kind = 'step' order by position

-- name: progress
-- How far a held job is; no row in the answer when the lease is lost.
update offpath_job set progress = :progress
where id = :id and +worker = :worker and deliveries = :deliveries and +state = 'running'
returning 1
