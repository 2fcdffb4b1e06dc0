-- name: migration_lock
-- One process at a time changes the schema; freed with the transaction.
select pg_advisory_xact_lock(hashtextextended('offpath.migration', 0))

-- name: migration_turn
-- The same for one who does not wait: a transaction that waited here would be waited for by who
-- makes an index beside all work.
select pg_try_advisory_xact_lock(hashtextextended('offpath.migration', 0))::int

-- name: migration_hold
-- The same beyond transactions, for what runs outside of any.
select pg_try_advisory_lock(hashtextextended('offpath.migration', 0))::int

-- name: migration_free
-- It is freed.
select pg_advisory_unlock(hashtextextended('offpath.migration', 0))::int

-- name: online_terms
-- For a session that makes indexes beside all work: it may take as long as it takes, and waits ten
-- minutes for the transactions that were there before it.
select
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
    pg_catalog.set_config('statement_timeout', '0', false),
    pg_catalog.set_config('lock_timeout', '10min', false)

-- name: has_schema
-- Whether the schema is there, and whether its record of steps is.
select
    (to_regnamespace('offpath') is not null)::int,
    (to_regclass('offpath.migration') is not null)::int

-- name: make_schema
-- The schema.
create schema offpath

-- name: make_record
-- The record of applied steps.
create table offpath.migration (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp()
)

-- name: applied
-- The applied steps.
select number, name, checksum, (extract(epoch from applied_at) * 1000000)::bigint
from offpath.migration
order by number

-- name: record
-- Notes an applied step.
insert into offpath.migration (number, name, checksum)
values (:number::int, :name::text, :checksum::text)
returning (extract(epoch from applied_at) * 1000000)::bigint

-- name: patience
-- Who changes the schema waits a minute for another who does, and its names are the server's own.
select
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('lock_timeout', '60s', true)

-- name: impatience
-- A step waits for a table for a moment only: whoever comes after it for that table waits behind it.
select pg_catalog.set_config('lock_timeout', '300ms', true)

-- name: own_names
-- The same of names alone, for a script.
set local search_path = pg_catalog, pg_temp
