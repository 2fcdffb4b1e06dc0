-- name: add_router
-- A router that does not exist yet.
insert into offpath_router (name, domain, partitions, created_at)
values (:name, :domain, :partitions, :now)
on conflict (name) do nothing
returning name

-- name: router_shape
-- What cannot change about a router.
select domain, partitions from offpath_router where name = :name

-- name: add_cursors
-- The cursors of a new router.
insert into offpath_cursor (router, partition, start, position, mark)
select :router, value, :start, :start, :mark from json_each(:partitions)

-- name: add_routes
-- Routes that a router lacks; others keep their switches.
insert into offpath_route (router, name, place, type, stream, deliver, enabled, dry_run)
select
    :router, value ->> 0, :place + key, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
    value ->> 5
from json_each(:routes)
where true
on conflict (router, name) do update set deliver = excluded.deliver

-- name: next_route
-- The place behind a router's last route.
select coalesce(max(place), -1) + 1 from offpath_route where router = :router

-- name: lock_cursor
-- The write lock, and whether anybody has the cursor now.
update offpath_cursor set position = position
where router = :router and partition = :partition
returning position, case when lease_until > :now then holder end

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
returning partition

-- name: add_attempts
-- Decisions; one that exists is left as it is.
insert into offpath_attempt (router, event, number, position, status, route, detail, at)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, :now
from json_each(:batch)
where true
on conflict (router, event, number) do nothing

-- name: add_letters
-- Dead letters; one that exists is left as it is.
insert into offpath_letter (
    id, router, route, event, position, document, reason, detail, number, created_at
)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, :now
from json_each(:batch)
where true
on conflict (id) do nothing

-- name: table_columns
-- The columns of a table, and whether they may be null; the number of a row never is.
select
    name,
    "notnull" = 0 and not (
        pk = 1 and upper(type) = 'INTEGER'
        and (select count(*) from pragma_table_info(:name, :schema) as key where key.pk > 0) = 1
    )
from pragma_table_info(:name, :schema)

-- name: router_facts
-- What the verification of a router compares.
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
    from offpath_log as event
    cross join offpath_cursor as cursor
    where
        event.domain = :domain
        and cursor.router = :router
        and cursor.partition = event.slot % :partitions
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
            and cursor.partition = event.slot % :partitions
            and attempt.position > cursor.position
    ),
    (
        select count(*) from offpath_attempt as attempt
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
    (select min(at) from fate where not passed)
