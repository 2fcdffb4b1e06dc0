-- name: add_schedule
-- Adds a schedule; one of that name stays as it is.
insert into offpath.schedule (name, definition, next_at, created_at, updated_at)
select :name::text, :definition::text, :next_at::text::timestamptz, clock.now, clock.now
from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now) as clock
on conflict (name) do nothing
returning 1

-- name: lock_schedule
-- A schedule, which stays as it is until the end of this transaction.
select s.definition from offpath.schedule s where s.name = :name::text for update

-- name: overtaken_schedule
-- What is due of a schedule that is not paused: a change of its times finds it so.
select offpath.micros(s.next_at)
from offpath.schedule s
where s.name = :name::text
    and not s.paused
    and s.next_at <= (select coalesce(:now::text::timestamptz, clock_timestamp()))

-- name: change_schedule
-- Another definition. Unless its times are others, what is due stays due.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.schedule s
set definition = :definition::text,
    next_at = case
        when :retimed::int = 0 and s.next_at <= clock.now then s.next_at
        else :next_at::text::timestamptz
    end,
    last_at = coalesce(:last_at::text::timestamptz, s.last_at),
    updated_at = clock.now,
    version = s.version + 1
from clock
where s.name = :name::text

-- name: schedules
-- These schedules, by name, and whether the last job of each is open.
select
    s.name, s.definition, s.paused::int, offpath.micros(s.next_at),
    offpath.micros(s.created_at),
    offpath.micros(s.updated_at), s.version,
    offpath.micros(s.last_at), s.last_job::text,
    coalesce(j.state not in ('succeeded', 'dead', 'cancelled'), false)::int
from offpath.schedule s
left join offpath.job j on j.id = s.last_job
where s.name = any (array(select jsonb_array_elements_text(:names::text::jsonb)))
order by s.name
limit 10000

-- name: all_schedules
-- Every schedule by name, and whether the last job of each is open.
select
    s.name, s.definition, s.paused::int, offpath.micros(s.next_at),
    offpath.micros(s.created_at),
    offpath.micros(s.updated_at), s.version,
    offpath.micros(s.last_at), s.last_job::text,
    coalesce(j.state not in ('succeeded', 'dead', 'cancelled'), false)::int
from offpath.schedule s
left join offpath.job j on j.id = s.last_job
order by s.name
limit 10000

-- name: due_schedules
-- Those that are due, the longest due first, and whether the last job of each is open.
select
    s.name, s.definition, s.paused::int, offpath.micros(s.next_at),
    offpath.micros(s.created_at),
    offpath.micros(s.updated_at), s.version,
    offpath.micros(s.last_at), s.last_job::text,
    coalesce(j.state not in ('succeeded', 'dead', 'cancelled'), false)::int
from (
    select * from offpath.schedule d
    where not d.paused
        and d.next_at is not null
        and d.next_at <= (select coalesce(:now::text::timestamptz, clock_timestamp()))
    order by d.next_at, d.name
    limit :limit::bigint
) as s
left join offpath.job j on j.id = s.last_job
order by s.next_at, s.name

-- name: next_schedule
-- Microseconds until the next one is due that is not due yet.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
select offpath.micros(min(s.next_at)) - offpath.micros((select clock.now from clock))
from offpath.schedule s
where not s.paused and s.next_at is not null and s.next_at > (select clock.now from clock)

-- name: pause_schedule
-- Pauses or resumes one.
update offpath.schedule s
set updated_at = case
        when s.paused <> (:paused::int = 1)
            or s.next_at is distinct from coalesce(:next_at::text::timestamptz, s.next_at)
            then coalesce(:now::text::timestamptz, clock_timestamp())
        else s.updated_at
    end,
    paused = (:paused::int = 1),
    next_at = coalesce(:next_at::text::timestamptz, s.next_at)
where s.name = :name::text
returning 1

-- name: delete_schedule
-- Removes one.
delete from offpath.schedule where name = :name::text returning 1

-- name: forget_occurrences
-- Removes the history of a schedule.
delete from offpath.occurrence where schedule = :name::text

-- name: fired_schedule
-- The next occurrence, and the last one.
update offpath.schedule s
set next_at = :next_at::text::timestamptz,
    last_at = :last_at::text::timestamptz,
    last_job = :last_job::text::uuid
where s.name = :name::text

-- name: known_occurrences
-- Which of these times have a row.
select offpath.micros(o.at)
from offpath.occurrence o
where o.schedule = :name::text
    and o.at = any (array(select jsonb_array_elements_text(:times::text::jsonb)::timestamptz))

-- name: add_occurrences
-- Records what became of occurrences; a row that is there stays.
insert into offpath.occurrence (schedule, at, outcome, job, made_at)
select
    :name::text, b.at, b.outcome, b.job, coalesce(:now::text::timestamptz, clock_timestamp())
from jsonb_to_recordset(:batch::text::jsonb) as b (at timestamptz, outcome text, job uuid)
order by b.at
on conflict (schedule, at) do nothing

-- name: occurrences
-- The history of a schedule, the latest first.
select
    o.schedule, offpath.micros(o.at), o.outcome, o.job::text,
    offpath.micros(o.made_at)
from offpath.occurrence o
where o.schedule = :name::text and o.at < coalesce(:before::text::timestamptz, 'infinity')
order by o.at desc
limit :limit::bigint

-- name: prune_occurrences
-- Removes old history that nobody else is removing. (Materialized: a plan that looked for the bounded
-- rows anew for each row beside them would remove more than that.)
with old as materialized (
    select d.schedule, d.at from offpath.occurrence d
    where d.made_at < :before::text::timestamptz
    order by d.made_at
    limit :limit::bigint
    for update skip locked
)
delete from offpath.occurrence o
using old
where o.schedule = old.schedule and o.at = old.at
returning 1
