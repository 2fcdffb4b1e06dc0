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
insert into offpath.log (position, at, slot, id, domain, type, stream, key, payload, headers)
select
    p.given[b.n], clock.now, coalesce(b.slot, 0), b.id, b.domain, b.type, b.stream, b.key, b.payload,
    b.headers
from clock
cross join places p
cross join jsonb_to_recordset(:batch::text::jsonb) as b (
    n integer, id text, domain text, type text, stream text, key text, slot integer, payload text,
    headers text
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
