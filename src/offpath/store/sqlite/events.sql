-- name: find_events
-- Events by id.
select position, id, domain, type, stream, payload, at, key, 0
from offpath_log
where id in (select value from json_each(:ids))

-- name: read_events
-- Events by position.
select position, id, domain, type, stream, payload, at, key, 0
from offpath_log
where position > :after
order by position
limit :limit

-- name: read_domain_events
-- Events of one domain by position.
select position, id, domain, type, stream, payload, at, key, 0
from offpath_log
where domain = :domain and position > :after
order by position
limit :limit
