-- name: add_log
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

-- name: read_log
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

-- name: trimmable
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

-- name: trim_log
delete from offpath_log where id in (select value from json_each(:events))

-- name: trim_attempts
-- Attempts at events that go, unless a dead letter is left of them.
delete from offpath_attempt
where
    event in (select value from json_each(:events))
    and router in (select name from offpath_router)
    and not exists (
        select 1 from offpath_letter as letter
        where letter.router = offpath_attempt.router and letter.event = offpath_attempt.event
    )
