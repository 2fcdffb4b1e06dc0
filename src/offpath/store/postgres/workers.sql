-- name: register
-- Adds a worker or renews it; says whether its lease was still running.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
before as materialized (
    select w.expires_at > clock.now as alive
    from offpath.worker w, clock
    where w.id = :id::text
    for update of w
),
written as (
    insert into offpath.worker as w (
        id, host, pid, version, concurrency, tasks, queues, started_at, seen_at, expires_at,
        presence, report
    )
    select
        :id::text, :host::text, :pid::bigint, :version::text, :concurrency::bigint,
        :tasks::text::jsonb, :queues::text::jsonb, clock.now, clock.now,
        clock.now + :lease_seconds::double precision * interval '1 second', :presence::bigint,
        :report::text
    -- looks before it writes: a row that this statement has written cannot be locked any more
    from clock
    left join before on true
    on conflict (id) do update
    set host = excluded.host,
        pid = excluded.pid,
        version = excluded.version,
        concurrency = excluded.concurrency,
        tasks = excluded.tasks,
        queues = excluded.queues,
        seen_at = excluded.seen_at,
        expires_at = excluded.expires_at,
        presence = excluded.presence,
        missing_since = null,
        report = coalesce(excluded.report, w.report),
        started_at = case when w.gone_at is null then w.started_at else excluded.started_at end,
        gone_at = null
    returning w.id
)
select coalesce((select b.alive from before b), false)::int from written

-- name: signals
-- Of the jobs a worker holds: which were asked to be cancelled (1) and which it lost (0).
select b.id::text, coalesce(j.cancel_requested::int, -1)
from jsonb_to_recordset(:held::text::jsonb) as b (id uuid, deliveries bigint)
left join lateral (
    select o.cancel_requested
    from offpath.job o
    where o.id = b.id
        and o.worker = :worker::text
        and o.deliveries = b.deliveries
) as j on true
where j.cancel_requested is distinct from false

-- name: alive
-- Whether a worker's lease is running.
select 1
from offpath.worker w
where w.id = :worker::text
    and w.expires_at > coalesce(:now::text::timestamptz, clock_timestamp())

-- name: deregister
-- A worker is gone: what it still holds is due for rescue.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.worker w
set gone_at = (select clock.now from clock),
    expires_at = least(w.expires_at, (select clock.now from clock)),
    presence = null,
    missing_since = null
where w.id = :worker::text and w.gone_at is null

-- name: workers
-- Every worker, oldest first, as JSON.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
select json_build_object(
    'info', json_build_object(
        'id', w.id, 'host', w.host, 'pid', w.pid, 'version', w.version,
        'concurrency', w.concurrency, 'tasks', w.tasks, 'queues', w.queues
    ),
    'started_at', w.started_at,
    'seen_at', w.seen_at,
    'expires_at', w.expires_at,
    'late', w.expires_at <= clock.now,
    'running', (
        select count(*) from offpath.job j where j.state = 'running' and j.worker = w.id
    ),
    'presence', w.presence is not null,
    'report', w.report,
    'gone_at', w.gone_at
)::text
from offpath.worker w
cross join clock
order by w.started_at, w.id
limit 10000

-- name: notice_deaths
-- Looks for workers whose lock is not held. One that is missing for the second time, a second or
-- more after the first, is expired. Never soon after the server started: a restart frees the locks
-- of workers that live.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
locks as materialized (
    select (l.classid::bigint << 32) | l.objid::bigint as key
    from pg_locks l
    where l.locktype = 'advisory'
        and l.objsubid = 1
        and l.granted
        and l.database = (select d.oid from pg_database d where d.datname = current_database())
),
seen as materialized (
    select w.id, exists (select from locks l where l.key = w.presence) as there
    from offpath.worker w
    where w.presence is not null
    order by w.id
),
looked as (
    update offpath.worker w
    set missing_since = case when s.there then null else coalesce(w.missing_since, clock.now) end,
        expires_at = case
            when not s.there and w.missing_since <= clock.now - interval '1 second'
                then clock.now
            else w.expires_at
        end,
        gone_at = case
            when not s.there and w.missing_since <= clock.now - interval '1 second'
                then clock.now
        end
    from seen s
    cross join clock
    where w.id = s.id
        and w.expires_at > clock.now
        and (not s.there or w.missing_since is not null)
        and clock_timestamp() > pg_postmaster_start_time()
            + :grace::double precision * interval '1 second'
    returning w.id, w.expires_at <= clock.now as expired
)
select l.id from looked l where l.expired

-- name: silent
-- Late workers of this machine that keep their jobs by their presence, and their processes.
select w.id, w.pid
from offpath.worker w
where w.presence is not null
    and w.gone_at is null
    and w.host = :host::text
    and w.expires_at <= coalesce(:now::text::timestamptz, clock_timestamp())

-- name: forget_stopped
-- These workers' processes are there and stand still: only their leases count.
update offpath.worker w
set presence = null, missing_since = null
where w.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))

-- name: vouch
-- A worker lives, though its event loop is blocked and renews nothing. A lock that was cut off
-- cannot be taken again by that loop, so that it is missing must say nothing.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.worker w
set seen_at = clock.now,
    expires_at = clock.now + :lease_seconds::double precision * interval '1 second',
    report = coalesce(:report::text, w.report),
    missing_since = null,
    presence = case
        when exists (
            select
            from pg_locks l
            where l.locktype = 'advisory'
                and l.objsubid = 1
                and l.granted
                and l.database = (
                    select d.oid from pg_database d where d.datname = current_database()
                )
                and (l.classid::bigint << 32) | l.objid::bigint = w.presence
        )
            then w.presence
    end
from clock
where w.id = :worker::text and w.gone_at is null
returning 1

-- name: claim
-- Takes a name that is free, or is held by the one who asks; no row in the answer when it is not.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
insert into offpath.claim as c (key, holder, free_at)
select :key::text, :holder::text, clock.now + :ttl::double precision * interval '1 second'
from clock
on conflict (key) do update
set holder = excluded.holder,
    free_at = case
        when c.free_at <= coalesce(:now::text::timestamptz, clock_timestamp())
            then excluded.free_at
        else c.free_at
    end
where c.holder = excluded.holder
    or c.free_at <= coalesce(:now::text::timestamptz, clock_timestamp())
returning 1

-- name: release_claim
-- Gives a name back; no row in the answer when it is not held by the one who asks.
delete from offpath.claim c where c.key = :key::text and c.holder = :holder::text returning 1

-- name: forget_presence
-- These workers' locks say nothing any more: only their leases count.
update offpath.worker w
set presence = null, missing_since = null
where w.presence = any (array(select jsonb_array_elements_text(:keys::text::jsonb)::bigint))

-- name: hold_presence
-- Takes the lock that shows that a worker lives, for as long as this session does. The session keeps
-- its own path, as everywhere below.
select pg_catalog.pg_try_advisory_lock(:key::bigint)::int

-- name: watch_client
-- Has the server notice within about eleven seconds that the machine at the other end is gone.
select
    set_config('tcp_keepalives_idle', '5', false),
    set_config('tcp_keepalives_interval', '2', false),
    set_config('tcp_keepalives_count', '3', false)

-- name: drop_presence
-- Gives the lock back.
select pg_catalog.pg_advisory_unlock(:key::bigint)::int

-- name: backend
-- The process that serves this session; a pooler's clients are told another one.
select pg_catalog.pg_backend_pid()

-- name: notify
-- Tells listeners of every process to look.
select pg_catalog.pg_notify(:channel::pg_catalog.text, '')
