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
insert into offpath.step (job, kind, name, result, at)
values (
    :id::text::uuid, 'step', :name::text, :result::text,
    coalesce(:now::text::timestamptz, clock_timestamp())
)
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

-- name: step_records
-- The recorded steps of a job with their times.
select s.name, s.result, offpath.micros(s.at)
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

-- name: put_undo
-- Records what undoes a step of a job, which is held, once by name.
insert into offpath.step (job, kind, name, result)
values (:id::text::uuid, 'undo', :name::text, :undo::text)
on conflict (job, kind, name) do nothing

-- name: mark_undo
-- This job has something to undo.
update offpath.job j set has_undo = true where j.id = :id::text::uuid and not j.has_undo

-- name: undoing
-- Dead and cancelled jobs that have something to undo.
select
    j.id::text, coalesce(j.group_id, j.id::text),
    (
        select coalesce(jsonb_agg(s.result order by s.position), '[]')
        from offpath.step s
        where s.job = j.id and s.kind = 'undo'
    )::text
from offpath.job j
where j.has_undo
    and j.finished_at is not null
    and j.state in ('dead', 'cancelled')
    and (:after::text is null or j.id > :after::text::uuid)
order by j.id
limit :limit::int

-- name: take_undo
-- A failed job has nothing to undo any more; no row when it had nothing.
update offpath.job j
set has_undo = false
where j.id = :id::text::uuid and j.has_undo and j.state in ('dead', 'cancelled')
returning 1

-- name: forget_steps
-- What a job has recorded is gone.
delete from offpath.step s where s.job = :id::text::uuid
