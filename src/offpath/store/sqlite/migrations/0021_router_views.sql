-- Routers for whoever works in SQL: views of what they decided. Times are whole microseconds since
-- 1970-01-01 UTC, as everywhere.

create view offpath_router_status as
select
    r.name as router,
    r.domain,
    c.partition,
    coalesce((select g.open from offpath_gate g where g.router = ''), 0) as master_open,
    coalesce((select g.open from offpath_gate g where g.router = r.name), 0) as router_open,
    c.position,
    c.passed,
    c.ran_at as last_run_at,
    c.summary as last_run_summary,
    (
        select min(l.at)
        from offpath_log l
        where l.domain = r.domain
            and l.position > c.position
            and l.slot % r.partitions = c.partition
            and c.mark is null
    ) as oldest_unrouted_at,
    (
        select count(*) from offpath_letter t where t.router = r.name and t.resolved_at is null
    ) as open_letters
from offpath_router r
join offpath_cursor c on c.router = r.name;

-- The key by which receivers drop repeats, and by which an event's way is found: unique with the number.
create view offpath_router_attempts as
select
    a.router || ':' || a.route || ':' || a.event as idempotency_key,
    a.number as attempt_no,
    a.router,
    a.route,
    a.event,
    a.position,
    a.status,
    a.at
from offpath_attempt a;

create view offpath_router_letters as
select
    t.router || ':' || t.route || ':' || t.event as idempotency_key,
    t.number as attempt_no,
    t.id,
    t.router,
    t.route,
    t.event,
    t.position,
    t.reason,
    t.created_at,
    t.resolved_at,
    t.resolution
from offpath_letter t;
