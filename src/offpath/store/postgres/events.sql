-- name: find_events
-- Events of the log by id.
select
    l.position, l.id, l.domain, l.type, l.stream, l.payload,
    offpath.micros(l.at), l.key, 0
from offpath.log l
where l.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))

-- name: read_events
-- Events by position.
select
    l.position, l.id, l.domain, l.type, l.stream, l.payload,
    offpath.micros(l.at), l.key, 0
from offpath.log l
where l.position > :after::bigint
order by l.position
limit :limit::int

-- name: read_domain_events
-- Events of one domain by position.
select
    l.position, l.id, l.domain, l.type, l.stream, l.payload,
    offpath.micros(l.at), l.key, 0
from offpath.log l
where l.domain = :domain::text and l.position > :after::bigint
order by l.position
limit :limit::int
