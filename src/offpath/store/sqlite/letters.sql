-- name: attempts
-- Attempts of a router by position and number.
select event, position, status, route, number, detail, at
from offpath_attempt
where
    router = :router and position >= :position
    and (position > :position or number > :number)
    and (:event is null or event = :event)
    and (:status is null or status = :status)
order by position, number
limit :limit

-- name: attempts_back
-- The same, the newest first.
select event, position, status, route, number, detail, at
from offpath_attempt
where
    router = :router and position <= :position
    and (position < :position or number < :number)
    and (:event is null or event = :event)
    and (:status is null or status = :status)
order by position desc, number desc
limit :limit

-- name: attempted
-- Those of some events that the router has decided about.
select event from offpath_attempt
where router = :router and number = 1 and event in (select value from json_each(:events))

-- name: partition_lags
-- What waits behind the cursor of each partition among the next events of the domain.
select
    cursor.partition,
    (
        select count(*) from (
            select event.slot from offpath_log as event
            where event.domain = router.domain and event.position > cursor.position
            order by event.position
            limit :most
        ) as next
        where next.slot % router.partitions = cursor.partition
    ),
    (
        select count(*) from (
            select 1 from offpath_log as event
            where event.domain = router.domain and event.position > cursor.position
            order by event.position
            limit :most
        )
    ),
    (
        select min(next.at) from (
            select event.slot, event.at from offpath_log as event
            where event.domain = router.domain and event.position > cursor.position
            order by event.position
            limit :most
        ) as next
        where next.slot % router.partitions = cursor.partition
    )
from offpath_router as router
join offpath_cursor as cursor on cursor.router = router.name
where router.name = :router and cursor.mark is null
order by cursor.partition

-- name: route_counts
-- The newest decisions of a router by route and status.
select route, status, count(*)
from (
    select route, status from offpath_attempt
    where router = :router
    order by position desc, number desc
    limit :most
)
group by route, status
order by route, status

-- name: redoable
-- The last attempts at events that ended so, by position and event.
select event, position, status, route, number, detail, at
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

-- name: add_attempt
-- One more attempt at an event; no row in the answer when there is one of that number.
insert into offpath_attempt (router, event, number, position, at, status, route, detail)
values (:router, :event, :number, :position, :now, :status, :route, :detail)
on conflict (router, event, number) do nothing
returning 1

-- name: letters
-- Dead letters by the position of their event.
select
    id, route, document, reason, detail, number, created_at, resolved_at, resolution
from offpath_letter
where
    router = :router and position > coalesce(:after, -1)
    and (not :unresolved or resolved_at is null)
    and (:ids is null or id in (select value from json_each(:ids)))
order by position, id
limit :limit

-- name: replay_letter
-- Counts a replay and ends the letter if it says how, unless it was replayed or resolved meanwhile.
update offpath_letter set
    number = :number + 1,
    resolution = :resolution,
    resolved_at = case when :resolution is not null then :now end
where id = :id and resolved_at is null and number = :number
returning 1

-- name: add_letter
-- A dead letter of an attempt that was made again.
insert into offpath_letter (
    id, router, event, position, number, created_at, route, reason, detail, document
)
values (
    :id, :router, :event_id, :position, :number, :now, :route, :reason, :detail, :event
)
on conflict (id) do nothing

-- name: resolve_letter
-- Ends a letter that has no end.
update offpath_letter set resolution = :resolution, resolved_at = :now
where id = :id and resolved_at is null
returning 1
