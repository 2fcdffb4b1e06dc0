-- name: hold_job
-- Keeps a held job still; no row in the answer when the lease is lost.
select 1
from offpath.job j
where j.id = :id::text::uuid
    and j.worker = :worker::text
    and j.deliveries = :deliveries::bigint
for update

-- name: put_step
-- Records the result of a step of a job, which is held, once.
insert into offpath.step (job, kind, name, result)
values (:id::text::uuid, 'step', :name::text, :result::text)
on conflict (job, kind, name) do nothing

-- name: step
-- What is recorded of one step.
select s.result
from offpath.step s
where s.job = :id::text::uuid and s.kind = 'step' and s.name = :name::text

-- name: steps
-- The recorded steps of a job.
select s.name, s.result
from offpath.step s
where s.job = :id::text::uuid and s.kind = 'step'
order by s.position

-- name: progress
-- How far a held job is; no row in the answer when the lease is lost.
update offpath.job j
set progress = :progress::text
where j.id = :id::text::uuid
    and j.worker = :worker::text
    and j.deliveries = :deliveries::bigint
returning 1
