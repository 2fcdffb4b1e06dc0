-- name: server_facts
-- Version and the settings that durability and speed rest on.
select
    current_setting('server_version'),
    current_setting('synchronous_commit'),
    current_setting('fsync'),
    current_setting('max_connections')::integer

-- name: old_transactions
-- Sessions whose transaction has been open for a minute: dead rows pile up behind them.
select pid, coalesce(usename, '?')::text, state::text,
    extract(epoch from clock_timestamp() - xact_start)::bigint
from pg_stat_activity
where xact_start < clock_timestamp() - interval '1 minute'
    and pid <> pg_backend_pid()
    and datname = current_database()
    and backend_type = 'client backend'
order by xact_start
limit 5

-- name: dead_rows
-- Live and dead rows of the hot table, as the statistics have them.
select n_live_tup::bigint, n_dead_tup::bigint
from pg_stat_user_tables
where relid = 'offpath.job'::regclass

-- name: torn_groups
-- Groups whose count of open jobs is not that of their members: to be shown, never expected.
select g.id, g.open
from offpath.job_group as g
where g.open <> (
    select count(*)
    from offpath.job as j
    where (j.group_id = g.id or j.id = g.id::uuid)
        and j.state in ('blocked', 'scheduled', 'ready', 'running')
)
limit 10

-- name: unheld
-- Running jobs whose worker has no row: the next rescue takes them.
select j.id::text
from offpath.job as j
where j.state = 'running'
    and not exists (select from offpath.worker as w where w.id = j.worker)
limit 10
