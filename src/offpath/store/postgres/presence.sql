-- name: notice_deaths
-- Looks for workers whose lock is not held. One that is missing for the second time, long enough
-- after the first, is expired. Never soon after the server started: a restart frees the locks of
-- workers that live. So does the crash of one of its processes, which ends all sessions: then the
-- server loses its statistics, and their age is the only mark of it.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
/* part: presence_locks */
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
            when not s.there and w.missing_since <= clock.now
                    - :apart::double precision * interval '1 second'
                then clock.now
            else w.expires_at
        end,
        gone_at = case
            when not s.there and w.missing_since <= clock.now
                    - :apart::double precision * interval '1 second'
                then clock.now
        end
    from seen s
    cross join clock
    where w.id = s.id
        and w.expires_at > clock.now
        and (not s.there or w.missing_since is not null)
        and clock_timestamp()
            > greatest(pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time())
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

-- name: free_held
-- Ends the leases of cursors, messages and claims that dead workers hold: the holder's name begins
-- with the worker's. The holder stays, for it may write still where nobody else was faster. Nobody
-- is waited for.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
dead as materialized (
    select w.id from jsonb_array_elements_text(:ids::text::jsonb) as w (id)
),
cursors as (
    update offpath.cursor c
    set held_until = clock.now
    from clock
    where (c.router, c.partition) in (
        select b.router, b.partition
        from offpath.cursor b
        where b.held_until > (select k.now from clock k)
            and split_part(b.holder, '/', 1) in (select d.id from dead d)
        for update skip locked
    )
    returning 1
),
claims as (
    update offpath.claim c
    set free_at = clock.now
    from clock
    where c.key in (
        select b.key
        from offpath.claim b
        where b.free_at > (select k.now from clock k)
            and split_part(b.holder, '/', 1) in (select d.id from dead d)
        for update skip locked
    )
    returning 1
),
messages as (
    update offpath.message m
    set due_at = clock.now
    from clock
    where m.id in (
        select b.id
        from offpath.message b
        where b.state = 'pending'
            and b.holder is not null
            and b.due_at > (select k.now from clock k)
            and split_part(b.holder, '/', 1) in (select d.id from dead d)
        for update skip locked
    )
    returning 1
)
select
    (select count(*) from cursors), (select count(*) from claims), (select count(*) from messages)

-- name: spared_workers
-- Workers that may be late and keep their jobs for some leases: the lock of their presence is held,
-- and not by this process, which proves nothing about itself.
select w.id
from offpath.worker w
where w.presence is not null
    and w.gone_at is null
    and w.seen_at + :leases::int * (w.expires_at - w.seen_at)
        > coalesce(:now::text::timestamptz, clock_timestamp())
    and not w.presence = any (
        array(select jsonb_array_elements_text(:own::text::jsonb)::bigint)
    )
    and exists (
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
