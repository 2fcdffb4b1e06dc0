-- name: routers
-- Every router or one, by name. Routes and cursors are JSON lists.
select
    router.name, router.domain, router.partitions,
    coalesce(
        (select gate.open = 1 from offpath_gate as gate where gate.router = router.name), 0
    ),
    coalesce((select gate.open = 1 from offpath_gate as gate where gate.router = ''), 0),
    router.created_at,
    (
        select json_group_array(json(listed.document)) from (
            select
                json_object(
                    'name', route.name, 'type', route.type, 'stream', route.stream,
                    'deliver', route.deliver, 'enabled', route.enabled, 'dry_run', route.dry_run
                ) as document
            from offpath_route as route
            where route.router = router.name
            order by route.place, route.name
        ) as listed
    ),
    (
        select json_group_array(json(listed.document)) from (
            select
                json_object(
                    'partition', cursor.partition, 'position', cursor.position,
                    'holder', case when cursor.lease_until > :now then cursor.holder end,
                    'passed', cursor.passed, 'ran_at', cursor.ran_at, 'summary', cursor.summary,
                    'mark', cursor.mark
                ) as document
            from offpath_cursor as cursor
            where cursor.router = router.name
            order by cursor.partition
        ) as listed
    )
from offpath_router as router
where :name is null or router.name = :name
order by router.name
limit 1000

-- name: add_router
-- Adds a router; no row in the answer when there is one of that name.
insert into offpath_router (name, domain, partitions, created_at)
values (:name, :domain, :partitions, :now)
on conflict (name) do nothing
returning 1

-- name: router_shape
-- What cannot change about a router.
select domain, partitions from offpath_router where name = :name

-- name: add_cursors
-- The cursors of a new router, all at its start.
insert into offpath_cursor (router, partition, position, start, mark)
with recursive place (n) as (
    select 0
    union all
    select n + 1 from place where n + 1 < :partitions
)
select :router, n, :position, :position, :mark from place

-- name: add_routes
-- The routes that a router lacks, behind those that it has; others keep their switches and learn what
-- they deliver to.
insert into offpath_route (router, name, place, type, stream, deliver, enabled, dry_run)
select
    :router, value ->> 0,
    (select coalesce(max(place), -1) + 1 from offpath_route where router = :router)
    + (value ->> 1),
    value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
from json_each(:routes)
where true
on conflict (router, name) do update set deliver = excluded.deliver

-- name: set_gate
-- Opens or closes a router's gate, or with no name the master's.
insert into offpath_gate (router, open)
select coalesce(:router, ''), :opened
where :router is null or exists (select 1 from offpath_router as router where router.name = :router)
on conflict (router) do update set open = excluded.open
returning 1

-- name: set_route
-- The switches of a route; null leaves one as it is.
update offpath_route set
    enabled = coalesce(:enabled, enabled),
    dry_run = coalesce(:dry_run, dry_run)
where router = :router and name = :route
returning 1

-- name: lease_cursor
-- Takes a cursor that is free, or renews it.
update offpath_cursor set
    holder = :holder,
    lease_until = :now + :lease
where
    router = :router and partition = :partition
    and (holder is null or lease_until <= :now or holder = :holder)
returning position, holder, passed, ran_at, summary, mark

-- name: has_cursor
-- Whether there is such a cursor.
select 1 from offpath_cursor where router = :router and partition = :partition

-- name: release_cursor
-- Gives a cursor back.
update offpath_cursor set holder = null, lease_until = null
where router = :router and partition = :partition and holder = :holder

-- name: move_cursor
-- Puts a cursor elsewhere and takes it from whoever holds it. What it jumps over on its way forth
-- is not this router's any more; what it comes back to is again.
update offpath_cursor set
    start = case when :position > position then :position else min(start, :position) end,
    position = :position,
    mark = null,
    holder = null,
    lease_until = null
where router = :router and partition = :partition
returning 1

-- name: lock_cursor
-- Takes the write lock, and answers the cursor unless somebody has it.
update offpath_cursor set position = position
where
    router = :router and partition = :partition and (holder is null or lease_until <= :now)
returning position, holder, passed, ran_at, summary, mark

-- name: advance
-- Moves a cursor on, never back; what is repeated is not counted again. With no holder given it is
-- taken from one whose lease has ended, who may be about to write still.
update offpath_cursor set
    holder = case when :holder is not null then holder end,
    lease_until = case when :holder is not null then lease_until end,
    position = max(position, :position),
    mark = case when :position > position then :mark else mark end,
    passed = passed + case when :position > position then :passed else 0 end,
    ran_at = :now,
    summary = coalesce(:summary, summary)
where
    router = :router and partition = :partition
    and (:holder is null or holder = :holder)
returning 1

-- name: add_attempts
-- What was decided; what was recorded before stays. Written only if the cursor was moved.
insert into offpath_attempt (router, event, number, position, status, route, detail, at)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, :now
from json_each(:batch)
where
    exists (
        select 1 from offpath_cursor as cursor
        where
            cursor.router = :router and cursor.partition = :partition
            and (:holder is null or cursor.holder = :holder)
    )
on conflict (router, event, number) do nothing

-- name: add_letters
-- Dead letters, in the same way.
insert into offpath_letter (
    id, router, event, position, number, route, reason, detail, document, created_at
)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, :now
from json_each(:batch)
where
    exists (
        select 1 from offpath_cursor as cursor
        where
            cursor.router = :router and cursor.partition = :partition
            and (:holder is null or cursor.holder = :holder)
    )
on conflict (id) do nothing

-- name: router_facts
-- What must fit together in a router's records, its lag in microseconds; no row for an unknown router.
with
fate as (
    select
        event.position, event.at,
        event.position <= cursor.position as passed,
        event.position > cursor.start as meant,
        (
            select count(*) from offpath_attempt as attempt
            where
                attempt.router = :router and attempt.event = event.id and attempt.number = 1
        ) as attempts
    from offpath_router as router
    cross join offpath_log as event
    cross join offpath_cursor as cursor
    where
        router.name = :router
        and event.domain = router.domain
        and cursor.router = :router
        and cursor.partition = event.slot % router.partitions
)
select
    (select coalesce(max(position), 0) from fate),
    (select count(*) from fate where passed and meant),
    (select count(*) from fate where passed and meant and attempts = 1),
    (
        select count(*) from offpath_attempt as attempt
        where
            attempt.router = :router
            and not exists (select 1 from offpath_log as event where event.id = attempt.event)
            and not exists (
                select 1 from offpath_letter as letter
                where letter.router = :router and letter.event = attempt.event
            )
    ),
    (
        select count(*) from offpath_attempt as attempt
        cross join offpath_log as event
        cross join offpath_cursor as cursor
        where
            attempt.router = :router
            and event.id = attempt.event
            and cursor.router = :router
            and cursor.partition = event.slot % router.partitions
            and attempt.position > cursor.position
    ),
    (
        select count(distinct attempt.event) from offpath_attempt as attempt
        where
            attempt.router = :router and attempt.status = 'failed'
            and not exists (
                select 1 from offpath_letter as letter
                where letter.router = :router and letter.event = attempt.event
            )
    ),
    (
        select count(*) from offpath_letter as letter
        where
            letter.router = :router
            and not exists (
                select 1 from offpath_attempt as attempt
                where
                    attempt.router = :router and attempt.event = letter.event
                    and attempt.status = 'failed'
            )
    ),
    (
        select count(*) from offpath_letter as letter
        where letter.router = :router and letter.resolved_at is null
    ),
    coalesce((select max(:now - min(at), 0) from fate where not passed), 0)
from offpath_router as router
where router.name = :router

-- name: table_columns
-- The columns of a table, and whether they may be null; the number of a row never is.
select
    name,
    "notnull" = 0 and not (
        pk = 1 and upper(type) = 'INTEGER'
        and (select count(*) from pragma_table_info(:name, :schema) as key where key.pk > 0) = 1
    )
from pragma_table_info(:name, :schema)
