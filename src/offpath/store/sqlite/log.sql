-- name: log_append
-- New events, in the order given. Those whose id is there already are left out.
insert into offpath_log (id, domain, type, stream, key, slot, at, payload)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, :now, value ->> 6
from json_each(:batch)
where true
on conflict (id) do nothing
returning id

-- name: log_horizon
-- The last position that was given: whoever writes has the file alone, so all up to it is settled.
select seq from sqlite_sequence where name = 'offpath_log'

-- name: log_read
-- Events of one domain and partition, and whether the router decided about them.
select
    position, id, domain, type, stream, payload, at, key,
    exists (
        select 1 from offpath_attempt as attempt
        where attempt.router = :router and attempt.event = event.id
    )
from offpath_log as event
where
    domain = :domain and position > :after and position <= :horizon
    and slot % :partitions = :partition
order by position
limit :limit

-- name: log_show
-- Events by position.
select position, id, domain, type, stream, payload, at, key
from offpath_log
where position > :after
order by position
limit :limit

-- name: log_show_domain
-- Events of one domain by position.
select position, id, domain, type, stream, payload, at, key
from offpath_log
where domain = :domain and position > :after
order by position
limit :limit

-- name: log_passed
-- Old events that every router of their domain has passed.
select id from offpath_log as event
where
    event.at < :before
    and not exists (
        select 1 from offpath_router as router
        cross join offpath_cursor as cursor
        where
            router.domain = event.domain
            and cursor.router = router.name
            and cursor.partition = event.slot % router.partitions
            and cursor.position < event.position
    )
order by event.at, event.position
limit :limit

-- name: log_trim
delete from offpath_log where id in (select value from json_each(:events))

-- name: attempt_trim
-- Attempts at events that go, unless a dead letter is left of them.
delete from offpath_attempt
where
    event in (select value from json_each(:events))
    and router in (select name from offpath_router)
    and not exists (
        select 1 from offpath_letter as letter
        where letter.router = offpath_attempt.router and letter.event = offpath_attempt.event
    )

-- name: router_add
-- A router that does not exist yet.
insert into offpath_router (name, domain, partitions, created_at)
values (:name, :domain, :partitions, :now)
on conflict (name) do nothing
returning name

-- name: router_get
select name, domain, partitions, created_at from offpath_router where name = :name

-- name: router_list
select name, domain, partitions, created_at from offpath_router order by name limit :limit

-- name: cursor_add
-- The cursors of a new router.
insert into offpath_cursor (router, partition, start, position, mark)
select :router, value, :start, :start, :mark from json_each(:partitions)

-- name: route_put
-- Routes that a router lacks; others keep their switches.
insert into offpath_route (router, name, place, type, stream, deliver, enabled, dry_run)
select
    :router, value ->> 0, :place + key, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
    value ->> 5
from json_each(:routes)
where true
on conflict (router, name) do update set deliver = excluded.deliver

-- name: route_next
-- The place behind a router's last route.
select coalesce(max(place), -1) + 1 from offpath_route where router = :router

-- name: route_list
-- The routes of some routers, in the order of their declaration.
select router, name, type, stream, deliver, enabled, dry_run from offpath_route
where router in (select value from json_each(:routers))
order by router, place

-- name: route_switch
-- The switches of a route; null leaves one as it is.
update offpath_route set
    enabled = coalesce(:enabled, enabled),
    dry_run = coalesce(:dry_run, dry_run)
where router = :router and name = :name
returning name

-- name: gate_set
insert into offpath_gate (router, open) values (:router, :open)
on conflict (router) do update set open = excluded.open

-- name: gate_list
-- The open gates of some routers, and that of all.
select router from offpath_gate
where (router = '' or router in (select value from json_each(:routers))) and open = 1

-- name: cursor_list
-- The cursors of some routers.
select
    router, partition, position, case when lease_until > :now then holder end, passed, ran_at,
    summary, mark
from offpath_cursor
where router in (select value from json_each(:routers))
order by router, partition

-- name: cursor_lease
-- Takes a cursor that is free, or renews it.
update offpath_cursor set
    holder = :holder,
    lease_until = :until
where
    router = :router and partition = :partition
    and (holder is null or lease_until <= :now or holder = :holder)
returning router, partition, position, holder, passed, ran_at, summary, mark

-- name: cursor_lock
-- The write lock, and whether anybody has the cursor now.
update offpath_cursor set position = position
where router = :router and partition = :partition
returning position, case when lease_until > :now then holder end

-- name: cursor_release
-- Gives a cursor back.
update offpath_cursor set holder = null, lease_until = null
where router = :router and partition = :partition and holder = :holder
returning partition

-- name: cursor_move
-- Puts a cursor elsewhere and takes it from whoever holds it. What it jumps over on its way forth
-- is not this router's any more; what it comes back to is again.
update offpath_cursor set
    start = case when :position > position then :position else min(start, :position) end,
    position = :position,
    mark = null,
    holder = null,
    lease_until = null
where router = :router and partition = :partition
returning partition

-- name: cursor_advance
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

-- name: attempted
-- Those of some events that the router has decided about.
select event from offpath_attempt
where router = :router and number = 1 and event in (select value from json_each(:events))

-- name: table_columns
-- The columns of a table, and whether they may be null; the number of a row never is.
select
    name,
    "notnull" = 0 and not (
        pk = 1 and upper(type) = 'INTEGER'
        and (select count(*) from pragma_table_info(:name, :schema) as key where key.pk > 0) = 1
    )
from pragma_table_info(:name, :schema)

-- name: redoable
-- The last attempts at events that ended so, by position and event.
select router, event, position, status, route, number, detail, at
from offpath_attempt as attempt
where
    router = :router and (position, event) > (:position, :event)
    and status in (select value from json_each(:statuses))
    and (:since is null or at >= :since)
    and not exists (
        select 1 from offpath_attempt as later
        where
            later.router = attempt.router and later.event = attempt.event
            and later.number > attempt.number
    )
order by position, event
limit :limit

-- name: log_find
-- Events by id.
select position, id, domain, type, stream, payload, at, key
from offpath_log
where id in (select value from json_each(:ids))

-- name: attempt_known
-- Whether an event has an attempt of that number.
select number from offpath_attempt
where router = :router and event = :event and number = :number

-- name: attempt_add
-- Decisions; one that exists is left as it is.
insert into offpath_attempt (router, event, number, position, status, route, detail, at)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, :now
from json_each(:batch)
where true
on conflict (router, event, number) do nothing

-- name: letter_add
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

-- name: letter_replayed
-- A dead letter after a replay, if it is still as it was when that began.
update offpath_letter set
    number = :next,
    resolution = :resolution,
    resolved_at = case when :resolution is not null then :now end
where id = :id and resolved_at is null and number = :number
returning id

-- name: letter_resolve
update offpath_letter set resolution = :resolution, resolved_at = :now
where id = :id and resolved_at is null
returning id

-- name: letter_list
-- Dead letters by the position of their event.
select
    id, router, route, document, reason, detail, number, created_at, resolved_at, resolution
from offpath_letter
where
    router = :router and position > :after
    and (not :unresolved or resolved_at is null)
    and (:ids is null or id in (select value from json_each(:ids)))
order by position, id
limit :limit

-- name: attempt_list
-- Attempts of a router by position and number.
select router, event, position, status, route, number, detail, at
from offpath_attempt
where
    router = :router and position >= :position
    and (position > :position or number > :number)
    and (:event is null or event = :event)
    and (:status is null or status = :status)
order by position, number
limit :limit

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
