-- name: add_schedule
-- Adds a schedule; one of that name stays as it is.
insert into offpath_schedule (name, definition, next_at, created_at, updated_at)
values (:name, :definition, :next_at, :now, :now)
on conflict (name) do nothing
returning 1

-- name: lock_schedule
-- nothing

-- name: overtaken_schedule
-- What is due of a schedule that is not paused: a change of its times finds it so.
select next_at from offpath_schedule
where name = :name and paused = 0 and next_at <= :now

-- name: change_schedule
-- Another definition. Unless its times are others, what is due stays due.
update offpath_schedule set
    definition = :definition,
    next_at = case when not :retimed and next_at <= :now then next_at else :next_at end,
    last_at = coalesce(:last_at, last_at),
    updated_at = :now,
    version = version + 1
where name = :name

-- name: schedules
-- These schedules, by name, and whether the last job of each is open.
select
    s.name, s.definition, s.paused, s.next_at, s.created_at, s.updated_at, s.version, s.last_at,
    s.last_job,
    exists (
        select 1 from offpath_job as job
        where job.id = s.last_job and job.state not in ('succeeded', 'dead', 'cancelled')
    )
from offpath_schedule as s
where s.name in (select value from json_each(:names))
order by s.name
limit 10000

-- name: all_schedules
-- Every schedule by name, and whether the last job of each is open.
select
    s.name, s.definition, s.paused, s.next_at, s.created_at, s.updated_at, s.version, s.last_at,
    s.last_job,
    exists (
        select 1 from offpath_job as job
        where job.id = s.last_job and job.state not in ('succeeded', 'dead', 'cancelled')
    )
from offpath_schedule as s
order by s.name
limit 10000

-- name: due_schedules
-- Those that are due, the longest due first.
select
    s.name, s.definition, s.paused, s.next_at, s.created_at, s.updated_at, s.version, s.last_at,
    s.last_job,
    exists (
        select 1 from offpath_job as job
        where job.id = s.last_job and job.state not in ('succeeded', 'dead', 'cancelled')
    )
from offpath_schedule as s
where s.paused = 0 and s.next_at is not null and s.next_at <= :now
order by s.next_at, s.name
limit :limit

-- name: next_schedule
-- Microseconds until the next one is due that is not due yet.
select min(next_at) - :now from offpath_schedule
where paused = 0 and next_at is not null and next_at > :now

-- name: pause_schedule
-- Pauses or resumes one.
update offpath_schedule set
    updated_at = case
        when paused <> :paused or next_at is not coalesce(:next_at, next_at) then :now
        else updated_at
    end,
    paused = :paused,
    next_at = coalesce(:next_at, next_at)
where name = :name
returning 1

-- name: delete_schedule
-- Removes one.
delete from offpath_schedule where name = :name returning 1

-- name: forget_occurrences
-- Removes the history of a schedule.
delete from offpath_occurrence where schedule = :name

-- name: fired_schedule
-- The next occurrence, and the last one.
update offpath_schedule set next_at = :next_at, last_at = :last_at, last_job = :last_job
where name = :name

-- name: known_occurrences
-- Which of these times have a row.
select at from offpath_occurrence
where schedule = :name and at in (select value from json_each(:times))

-- name: add_occurrences
-- Records what became of occurrences; a row that is there stays.
insert into offpath_occurrence (schedule, at, outcome, job, made_at)
select
    :name, row.value ->> 'at', row.value ->> 'outcome', row.value ->> 'job', :now
from json_each(:batch) as row
where true
on conflict (schedule, at) do nothing

-- name: occurrences
-- The history of a schedule, the latest first.
select schedule, at, outcome, job, made_at
from offpath_occurrence
where schedule = :name and at < coalesce(:before, 9223372036854775807)
order by at desc
limit :limit

-- name: prune_occurrences
-- Removes old history.
delete from offpath_occurrence
where
    (schedule, at) in (
        select schedule, at from offpath_occurrence
        where made_at < :before
        order by made_at
        limit :limit
    )
returning 1
