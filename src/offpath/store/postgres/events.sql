-- name: find_events
-- Events of the log by id.
select
    l.position, l.id, l.domain, l.type, l.stream, l.payload,
    offpath.micros(l.at), l.key, 0, l.headers
from offpath.log l
where l.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))

-- name: read_events
-- Events by position.
select
    l.position, l.id, l.domain, l.type, l.stream, l.payload,
    offpath.micros(l.at), l.key, 0, l.headers
from offpath.log l
where l.position > :after::bigint
order by l.position
limit :limit::int

-- name: read_domain_events
-- Events of one domain by position.
select
    l.position, l.id, l.domain, l.type, l.stream, l.payload,
    offpath.micros(l.at), l.key, 0, l.headers
from offpath.log l
where l.domain = :domain::text and l.position > :after::bigint
order by l.position
limit :limit::int

-- name: read_log
-- Events of the router's domain and partition, with whether it has an attempt of each. There is a
-- row without an event when there is none, and no row for an unknown router or partition.
select
    e.position, e.id, e.domain, e.type, e.stream, e.payload,
    offpath.micros(e.at), e.key, e.decided, e.headers
from offpath.router r
left join lateral (
    select
        l.position, l.id, l.domain, l.type, l.stream, l.payload, l.at, l.key, l.headers,
        exists (
            select from offpath.attempt a where a.router = r.name and a.event = l.id
        )::int as decided
    from offpath.log l
    where l.domain = r.domain
        and l.position > :after::bigint
        and l.position <= :horizon::bigint
        and l.slot % r.partitions = :partition::int
    order by l.position
    limit :limit::int
) as e on true
where r.name = :router::text
    and :partition::int between 0 and r.partitions - 1
order by e.position

-- name: trimmable
-- Old events that every router of their domain has passed, the oldest first. Domains
-- are stepped to; of one whose slowest router has not moved, nothing is read, and nothing behind the
-- first event that is too young. No lock is taken.
with recursive domains (domain) as (
    (select l.domain from offpath.log l order by l.domain limit 1)
    union all
    select next.domain
    from domains d
    cross join lateral (
        select l.domain
        from offpath.log l
        where l.domain > d.domain
        order by l.domain
        limit 1
    ) as next
),
bounds as materialized (
    select d.domain, coalesce(
        (
            select min(b.reached)
            from offpath.router r
            cross join lateral (
                select max(c.position) as reached from offpath.cursor c where c.router = r.name
            ) as b
            where r.domain = d.domain
        ),
        9223372036854775807
    ) as reached
    from domains d
)
select e.position, e.id
from bounds b
cross join lateral (
    select l.position, l.id
    from offpath.log l
    where l.domain = b.domain
        and l.position <= b.reached
        and l.position < coalesce(
            (
                select young.position
                from offpath.log young
                where young.domain = b.domain and young.at >= :before::text::timestamptz
                order by young.domain, young.position
                limit 1
            ),
            9223372036854775807
        )
        and l.at < :before::text::timestamptz
        and not exists (
            select
            from offpath.router r
            join offpath.cursor c on c.router = r.name and c.partition = l.slot % r.partitions
            where r.domain = l.domain and c.position < l.position
        )
    order by l.position
    limit :limit::int
) as e
order by e.position
limit :limit::int

-- name: trim_log
-- Removes these events.
delete from offpath.log l
where l.position = any (array(select jsonb_array_elements_text(:positions::text::jsonb)::bigint))
returning l.position

-- name: trim_attempts
-- Removes the attempts at events that are gone, unless a dead letter is left of them.
delete from offpath.attempt a
using jsonb_array_elements_text(:events::text::jsonb) as b (id), offpath.router r
where a.router = r.name
    and a.event = b.id
    and not exists (
        select from offpath.letter t where t.router = a.router and t.event_id = a.event
    )
