-- name: hold_worker
-- Whether a worker's lease is running, which nobody else ends until the end of this transaction,
-- and what is asked of it.
select (w.expires_at > coalesce(:now::text::timestamptz, clock_timestamp()))::int, w.asked::text
from offpath.worker w
where w.id = :worker::text
for update

-- name: register
-- Adds a worker or renews it.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
insert into offpath.worker as w (
    id, host, pid, version, concurrency, tasks, queues, started_at, seen_at, expires_at,
    presence, report
)
select
    :worker::text, i.info ->> 'host', (i.info ->> 'pid')::bigint, i.info ->> 'version',
    (i.info ->> 'concurrency')::bigint, i.info -> 'tasks', i.info -> 'queues',
    clock.now, clock.now, clock.now + :span::double precision * interval '1 second',
    :presence::bigint, :report::text
from clock
cross join (select :info::text::jsonb as info) as i
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

-- name: signals
-- Of the jobs a worker holds: which were asked to be cancelled (1) and which it lost (-1).
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
-- Whether a worker's lease is running, and what is asked of it.
select 1, w.asked::text
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
-- Every worker, oldest first.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
select
    json_build_object(
        'id', w.id, 'host', w.host, 'pid', w.pid, 'version', w.version,
        'concurrency', w.concurrency, 'tasks', w.tasks, 'queues', w.queues
    )::text,
    offpath.micros(w.started_at), offpath.micros(w.seen_at), offpath.micros(w.expires_at),
    (w.expires_at <= clock.now)::int,
    (w.presence is not null)::int,
    (select count(*) from offpath.job j where j.state = 'running' and j.worker = w.id),
    w.report,
    offpath.micros(w.gone_at)
from offpath.worker w
cross join clock
order by w.started_at, w.id
limit 10000

-- name: vouch
-- A worker lives, though its event loop is blocked and renews nothing. A lock that was cut off
-- cannot be taken again by that loop, so that it is missing must say nothing.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.worker w
set seen_at = clock.now,
    expires_at = clock.now + :span::double precision * interval '1 second',
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
select :key::text, :holder::text, clock.now + :span::double precision * interval '1 second'
from clock
on conflict (key) do update
set holder = excluded.holder,
    free_at = case
        when :renew::boolean
            or c.free_at <= coalesce(:now::text::timestamptz, clock_timestamp())
            then excluded.free_at
        else c.free_at
    end
where c.holder = excluded.holder
    or c.free_at <= coalesce(:now::text::timestamptz, clock_timestamp())
returning 1

-- name: release_claim
-- Gives a name back; no row in the answer when it is not held by the one who asks.
delete from offpath.claim c where c.key = :key::text and c.holder = :holder::text returning 1

-- name: ask_worker
-- Asks something of a live worker, unless it was asked already or has not answered many others.
update offpath.worker w
set asked = case
        when w.asked @> jsonb_build_array(jsonb_build_object('id', :id::text)) then w.asked
        when w.answer ->> 'id' = :id::text then w.asked
        else coalesce(w.asked, '[]') || :ask::text::jsonb
    end
where w.id = :worker::text and w.gone_at is null
    and (
        jsonb_array_length(coalesce(w.asked, '[]')) < :most::int
        or w.answer ->> 'id' = :id::text
        or w.asked @> jsonb_build_array(jsonb_build_object('id', :id::text))
    )
returning 1

-- name: answer_worker
-- A worker has carried a request out.
update offpath.worker w
set asked = (
        select jsonb_agg(o.ask order by o.n)
        from jsonb_array_elements(w.asked) with ordinality as o (ask, n)
        where o.ask ->> 'id' <> :id::text
    ),
    answer = :answer::text::jsonb,
    answered_at = coalesce(:now::text::timestamptz, clock_timestamp())
where w.id = :worker::text
    and w.asked @> jsonb_build_array(jsonb_build_object('id', :id::text))
returning 1

-- name: worker_desk
-- What is asked of a worker, and its last answer.
select w.asked::text, w.answer::text, offpath.micros(w.answered_at)
from offpath.worker w
where w.id = :worker::text
