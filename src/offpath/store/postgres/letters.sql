-- part: attempts_that_match
-- The attempts of a router, those about one event or of one status where these are given.
select
    a.event, a.position, a.status, a.route, a.number, a.detail,
    offpath.micros(a.at)
from offpath.attempt a
where a.router = :router::text
    and (:event::text is null or a.event = :event::text)
    and (:status::text is null or a.status = :status::text)

-- name: attempts
-- Attempts by position and number.
/* part: attempts_that_match */
    and (a.position, a.number) > (:position::bigint, :number::bigint)
order by a.position, a.number
limit :limit::int

-- name: attempts_back
-- The same, the newest first.
/* part: attempts_that_match */
    and (a.position, a.number) < (:position::bigint, :number::bigint)
order by a.position desc, a.number desc
limit :limit::int

-- name: attempted
-- Those of some events that the router has decided about.
select a.event
from offpath.attempt a
where a.router = :router::text
    and a.number = 1
    and a.event = any (array(select jsonb_array_elements_text(:events::text::jsonb)))

-- name: partition_lags
-- What waits behind the cursor of each partition among the next events of the domain.
select c.partition, behind.waiting, behind.looked, offpath.micros(behind.oldest)
from offpath.router r
join offpath.cursor c on c.router = r.name
cross join lateral (
    select
        count(*) filter (where next.slot % r.partitions = c.partition) as waiting,
        count(*) as looked,
        min(next.at) filter (where next.slot % r.partitions = c.partition) as oldest
    from (
        select l.slot, l.at
        from offpath.log l
        where l.domain = r.domain and l.position > c.position
        order by l.position
        limit :most::int
    ) as next
) as behind
where r.name = :router::text and c.mark is null
order by c.partition

-- name: route_counts
-- The newest decisions of a router by route and status.
select newest.route, newest.status, count(*)
from (
    select a.route, a.status
    from offpath.attempt a
    where a.router = :router::text
    order by a.position desc, a.number desc
    limit :most::int
) as newest
group by newest.route, newest.status
order by newest.route collate "C", newest.status collate "C"

-- name: redoable
-- The last attempts at events that ended so, by position and event.
select
    a.event, a.position, a.status, a.route, a.number, a.detail,
    offpath.micros(a.at)
from offpath.attempt a
where a.router = :router::text
    and a.status = any (array(select jsonb_array_elements_text(:statuses::text::jsonb)))
    and (:since::text is null or a.at >= :since::text::timestamptz)
    and a.position >= :position::bigint
    and (a.position, a.event) > (:position::bigint, :event::text)
    and not exists (
        select
        from offpath.attempt b
        where b.router = a.router and b.event = a.event and b.number > a.number
    )
order by a.position, a.event
limit :limit::int

-- name: add_attempt
-- One more attempt at an event; no row in the answer when there is one of that number.
insert into offpath.attempt (router, event, number, position, at, status, route, detail)
values (
    :router::text, :event::text, :number::int, :position::bigint,
    coalesce(:now::text::timestamptz, clock_timestamp()), :status::text, :route::text,
    :detail::text
)
on conflict (router, event, number) do nothing
returning 1

-- name: letters
-- Dead letters by the position of their event.
select
    t.id, t.route, t.event, t.reason, t.detail, t.number,
    offpath.micros(t.created_at),
    offpath.micros(t.resolved_at),
    t.resolution
from offpath.letter t
where t.router = :router::text
    and (:ids::text is null or t.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb))))
    and (:unresolved::int = 0 or t.resolved_at is null)
    and (:after::bigint is null or t.position > :after::bigint)
order by t.position, t.id
limit :limit::int

-- name: replay_letter
-- Counts a replay and ends the letter if it says how, unless it was replayed or resolved meanwhile.
update offpath.letter t
set number = :number::int + 1,
    resolution = :resolution::text,
    resolved_at = case
        when :resolution::text is not null
            then coalesce(:now::text::timestamptz, clock_timestamp())
    end
where t.id = :id::text and t.number = :number::int and t.resolved_at is null
returning 1

-- name: add_letter
-- A dead letter of an attempt that was made again.
insert into offpath.letter (
    id, router, event_id, position, number, created_at, route, reason, detail, event
)
values (
    :id::text, :router::text, :event_id::text, :position::bigint, :number::int,
    coalesce(:now::text::timestamptz, clock_timestamp()), :route::text, :reason::text,
    :detail::text, :event::text
)
on conflict (id) do nothing

-- name: resolve_letter
-- Ends a letter that has no end.
update offpath.letter t
set resolution = :resolution::text,
    resolved_at = coalesce(:now::text::timestamptz, clock_timestamp())
where t.id = :id::text and t.resolved_at is null
returning 1
