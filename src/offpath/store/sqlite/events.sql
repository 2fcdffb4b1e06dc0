-- name: find_events
-- Events by id.
select position, id, domain, type, stream, payload, at, key, 0, headers
from offpath_log
where id in (select value from json_each(:ids))

-- name: read_events
-- Events by position.
select position, id, domain, type, stream, payload, at, key, 0, headers
from offpath_log
where position > :after
order by position
limit :limit

-- name: read_domain_events
-- Events of one domain by position.
select position, id, domain, type, stream, payload, at, key, 0, headers
from offpath_log
where domain = :domain and position > :after
order by position
limit :limit

-- name: read_log
-- Events of the router's domain and partition, with whether it has an attempt of each. There is a
-- row without an event when there is none, and no row for an unknown router or partition.
select
    event.position, event.id, event.domain, event.type, event.stream, event.payload, event.at,
    event.key,
    exists (
        select 1 from offpath_attempt as attempt
        where attempt.router = :router and attempt.event = event.id
    ),
    event.headers
from offpath_router as router
left join offpath_log as event
    on
        event.domain = router.domain and event.position > :after and event.position <= :horizon
        and event.slot % router.partitions = :partition
where router.name = :router and :partition between 0 and router.partitions - 1
order by event.position
limit :limit

-- name: trimmable
-- Old events that every router of their domain has passed.
select event.position, event.id
from offpath_log as event
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
-- Removes these events.
delete from offpath_log where position in (select value from json_each(:positions))
returning position

-- name: trim_attempts
-- Removes the attempts at events that are gone, unless a dead letter is left of them.
delete from offpath_attempt
where
    event in (select value from json_each(:events))
    and router in (select name from offpath_router)
    and not exists (
        select 1 from offpath_letter as letter
        where letter.router = offpath_attempt.router and letter.event = offpath_attempt.event
    )
