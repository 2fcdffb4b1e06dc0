-- name: add_log
-- Appends events, given by id, with "n" for the order of writing. The table's lock is taken before
-- the first position is: whoever may write a position that was given shows in the list of locks.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
places as materialized (
    select array(
        select nextval('offpath.log_position_seq'::regclass) from generate_series(1, :count::int)
    ) as given
)
insert into offpath.log (position, at, slot, id, domain, type, stream, key, payload)
select
    p.given[b.n], clock.now, coalesce(b.slot, 0), b.id, b.domain, b.type, b.stream, b.key, b.payload
from clock
cross join places p
cross join jsonb_to_recordset(:batch::text::jsonb) as b (
    n integer, id text, domain text, type text, stream text, key text, slot integer, payload text
)
on conflict (id) do nothing

-- name: catch_up_log
-- Gives the positions away that rows have though the counter never gave them; a bounded number.
select count(nextval('offpath.log_position_seq'::regclass))
from generate_series(
    1,
    least(
        1000000,
        (select max(l.position) from offpath.log l)
            - (select s.last_value from offpath.log_position_seq s)
    )
)

-- name: log_given
-- The highest position that was given to anybody, 0 before the first.
select case when s.is_called then s.last_value else 0 end::bigint from offpath.log_position_seq s

-- name: log_writers
-- The transactions that may write to the log: which, of what process, and whether it is our own.
select l.virtualtransaction, coalesce(l.pid, 0), (l.pid is not distinct from pg_backend_pid())::int
from pg_locks l
where l.locktype = 'relation'
    and l.relation = 'offpath.log'::regclass
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.mode = 'RowExclusiveLock'
    and l.granted

-- name: isolation
-- What the caller's transaction sees: all that is committed now, or what was when it began.
select current_setting('transaction_isolation')

-- name: read_log
-- Events of the router's domain and partition, with whether it has an attempt of each. There is a
-- row without an event when there is none, and no row for an unknown router or partition.
select
    e.position, e.id, e.domain, e.type, e.stream, e.payload,
    offpath.micros(e.at), e.key, e.decided
from offpath.router r
left join lateral (
    select
        l.position, l.id, l.domain, l.type, l.stream, l.payload, l.at, l.key,
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
-- Positions of old events that every router of their domain has passed, the oldest first. Domains
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
select e.position
from bounds b
cross join lateral (
    select l.position
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
-- Removes these events, and the attempts at them that have no dead letter.
with gone as (
    delete from offpath.log l
    where l.position = any (array(select jsonb_array_elements_text(:positions::text::jsonb)::bigint))
    returning l.id, l.domain
),
forgotten as (
    delete from offpath.attempt a
    using gone g, offpath.router r
    where r.domain = g.domain
        and a.router = r.name
        and a.event = g.id
        and not exists (
            select from offpath.letter t where t.router = a.router and t.event_id = a.event
        )
)
select count(*) from gone
