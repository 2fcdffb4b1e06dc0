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

-- name: attempted
-- Those of some events that the router has decided about.
select event from offpath_attempt
where router = :router and number = 1 and event in (select value from json_each(:events))

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
