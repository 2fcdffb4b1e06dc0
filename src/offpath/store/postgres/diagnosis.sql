-- name: server_facts
-- Version and the settings that durability and speed rest on.
select
    current_setting('server_version'),
    current_setting('synchronous_commit'),
    current_setting('fsync'),
    current_setting('max_connections')::integer,
    (
        current_setting('autovacuum')::boolean
        and not exists (
            select from pg_class c, pg_options_to_table(c.reloptions) as o
            where c.oid = 'offpath.job'::regclass
                and o.option_name = 'autovacuum_enabled' and not o.option_value::boolean
        )
    )::int

-- name: collation
-- By which version of the operating system's collation the database was ordered, and which it is now;
-- both null where the order does not depend on the system. (Keys of this schema have a collation of
-- their own; those of the user's tables beside it follow the database's.)
select d.datname::text, d.datcollversion, pg_database_collation_actual_version(d.oid)
from pg_database d
where d.datname = current_database()

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
with counted as (
    select g.id, g.open, (
        select count(*)
        from offpath.job as j
        where j.group_id = g.id
            and j.state in ('blocked', 'scheduled', 'ready', 'running')
    ) + (
        select count(*)
        from offpath.job as j
        where j.id = case when g.id ~ '^[0-9a-f-]{36}$' then g.id::uuid end
            and j.group_id is null
            and j.state in ('blocked', 'scheduled', 'ready', 'running')
    ) as live
    from (select id, open from offpath.job_group limit :most::bigint) as g
)
select id, 'counts ' || open || ' open jobs, has ' || live
from counted
where open <> live
limit 10

-- name: counters_behind
-- Counters of identity columns that have yet to give what rows have already, or what a router has
-- passed: a row would not be written, or an event would be skipped. (The largest value of a column
-- whose name is read here is asked for by a query that is made of it.)
with counters as materialized (
    select t.relname || '.' || c.attname as name, t.relnamespace as space, t.relname as held,
        c.attname as field,
        coalesce(
            pg_sequence_last_value(
                pg_get_serial_sequence(
                    quote_ident(n.nspname) || '.' || quote_ident(t.relname), c.attname
                )::regclass
            ),
            0
        ) as given,
        n.nspname as schema
    from pg_attribute c
    join pg_class t on t.oid = c.attrelid
    join pg_namespace n on n.oid = t.relnamespace
    where c.attidentity <> '' and not c.attisdropped
        and t.relnamespace = (
            select j.relnamespace from pg_class j where j.oid = 'offpath.job'::regclass
        )
),
reached as (
    select c.name, c.given, 'rows go' as who, (
        xpath(
            '/row/most/text()',
            query_to_xml(
                'select max(' || quote_ident(c.field) || ') as most from '
                    || quote_ident(c.schema) || '.' || quote_ident(c.held),
                false, true, ''
            )
        )
    )[1]::text::bigint as most
    from counters c
    union all
    select c.name, c.given, 'routers went', (select max(p.position) from offpath.cursor p)
    from counters c
    where c.held = 'log'
)
select r.name, 'has given ' || r.given || ', ' || r.who || ' to ' || r.most
from reached r
where r.most > r.given
order by r.name, r.who

-- name: unheld
-- Running jobs whose worker has no row: the next rescue takes them.
select j.id::text, 'held by ' || j.worker
from offpath.job as j
where j.state = 'running'
    and not exists (select from offpath.worker as w where w.id = j.worker)
limit 10

-- name: odd_rows
-- Jobs of which one field contradicts another, or does not read: the constraints forbid most of
-- them, but a restored or mended table may have lost those. Looked for among the newest.
with recent as (
    select id, state, worker, finished_at, attempt, deliveries, losses, options, progress, tags,
        dependents, enqueued_at, run_at, deadline, started_at, expires_at
    from offpath.job
    order by id desc
    limit :most::bigint
),
judged as (
    select id, case
        when state not in (
            'blocked', 'scheduled', 'ready', 'running', 'succeeded', 'dead', 'cancelled'
        ) then 'unknown state'
        when state = 'running' and worker is null then 'running without a worker'
        when state <> 'running' and worker is not null then 'held though it does not run'
        when (state in ('succeeded', 'dead', 'cancelled')) <> (finished_at is not null)
            then 'ended without a time, or a time without an end'
        when attempt < 1 or deliveries < 0 or losses < 0 then 'a count below its least'
        when options not like '{%}' then 'options that are not JSON'
        when progress not like '{%}' then 'progress that is not JSON'
        when exists (
            select from unnest(
                array[enqueued_at, run_at, deadline, started_at, finished_at, expires_at]
            ) as one (at)
            where abs(offpath.micros(one.at)) = 9223372036854775807
        ) then 'a time that cannot be read'
        when jsonb_typeof(tags) <> 'array' then 'tags that are not a list'
        when jsonb_typeof(dependents) <> 'array' then 'dependents that are not a list'
    end as fault
    from recent
),
odd_gates as (
    select g.id::text
    from (select * from offpath.job_gate order by id desc limit :most::bigint) as g
    where g.state not in ('open', 'fired', 'unsatisfiable', 'timed_out')
        or g.counting not in ('succeeded', 'settled')
    limit 10
),
odd_groups as (
    select g.id
    from (select * from offpath.job_group order by id desc limit :most::bigint) as g
    where g.policy not in ('settle_all', 'fail_fast')
    limit 10
),
found as (
    (select id::text as place, fault from judged where fault is not null limit 10)
    union all
    select 'gate ' || id, 'unknown state, or way of counting' from odd_gates
    union all
    select 'group ' || id, 'unknown policy' from odd_groups
)
select place, fault from found

-- name: ledger_odd
-- Of the newest postings and the accounts that they moved, what no check would have let pass: the
-- triggers may have been off, or a restored table may have lost them.
with recent as materialized (
    select id from offpath.ledger_posting order by seq desc limit :most::bigint
),
linked as materialized (
    select l.posting, l.account, l.currency, l.amount
    from recent r
    join offpath.ledger_link l on l.posting = r.id
),
judged as (
    select r.id, 'has no links' as fault
    from recent r
    where not exists (select from linked l where l.posting = r.id)
    union all
    select l.posting, 'is off by ' || sum(l.amount) || ' ' || l.currency
    from linked l
    group by l.posting, l.currency
    having sum(l.amount) <> 0
    union all
    select t.account, case
        when a.id is null then 'has links and no balance'
        when a.guarded and a.balance < 0 then 'is below zero'
        else 'is not as its last link has it'
    end
    from (select distinct account from linked) as t
    left join offpath.ledger_account a on a.id = t.account
    left join lateral (
        select k.number, k.balance, k.raised, k.hash
        from offpath.ledger_link k
        where k.account = t.account
        order by k.number desc
        limit 1
    ) as k on true
    where a.id is null
        or (a.guarded and a.balance < 0)
        or (k.number, k.balance, k.raised, k.hash)
            is distinct from (a.number, a.balance, a.raised, a.head)
)
select id, fault from judged limit 10
