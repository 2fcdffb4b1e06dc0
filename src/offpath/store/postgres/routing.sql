-- name: add_router
-- Adds a router; no row in the answer when there is one of that name.
insert into offpath.router (name, domain, partitions, created_at)
values (
    :name::text, :domain::text, :partitions::int,
    coalesce(:now::text::timestamptz, clock_timestamp())
)
on conflict (name) do nothing
returning 1

-- name: router_shape
-- What cannot change about a router.
select r.domain, r.partitions from offpath.router r where r.name = :name::text

-- name: add_cursors
-- The cursors of a new router, all at its start.
insert into offpath.cursor (router, partition, position, start, mark)
select :name::text, p, :position::bigint, :position::bigint, :mark::text
from generate_series(0, :partitions::int - 1) as p
on conflict (router, partition) do nothing

-- name: add_routes
-- The routes that a router lacks; others keep their switches and learn what they deliver to.
insert into offpath.route as r (
    router, name, place, type, stream, deliver, enabled, dry_run
)
select :router::text, b.name, b.n, b.type, b.stream, b.deliver, b.enabled, b.dry_run
from jsonb_to_recordset(:routes::text::jsonb) as b (
    n integer, name text, type text, stream text, deliver text, enabled boolean, dry_run boolean
)
on conflict (router, name) do update set deliver = excluded.deliver
where r.deliver <> excluded.deliver

-- name: lock_cursor
-- Keeps a cursor for this transaction, unless somebody has it or is taking it.
select
    c.position, c.holder, c.passed, offpath.micros(c.ran_at), c.summary, c.mark
from offpath.cursor c
where c.router = :router::text
    and c.partition = :partition::int
    and (
        c.holder is null or c.held_until <= coalesce(:now::text::timestamptz, clock_timestamp())
    )
for update skip locked

-- name: advance
-- Moves a cursor on and writes what was decided, if it is still held by the one who says so; with
-- no holder given it must be locked by this transaction, and is taken from one whose lease has
-- ended, who may be about to write still. No row in the answer when it is not.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
moved as (
    update offpath.cursor c
    set position = greatest(c.position, :position::bigint),
        mark = case when :position::bigint > c.position then :mark::text else c.mark end,
        -- a repeat passes nothing
        passed = c.passed + case when :position::bigint > c.position then :passed::bigint else 0 end,
        ran_at = (select clock.now from clock),
        summary = coalesce(:summary::text, c.summary),
        holder = case when :holder::text is not null then c.holder end,
        held_until = case when :holder::text is not null then c.held_until end
    where c.router = :router::text
        and c.partition = :partition::int
        and (:holder::text is null or c.holder = :holder::text)
    returning 1
),
attempted as (
    insert into offpath.attempt (router, event, number, position, at, status, route, detail)
    select b.router, b.event, b.number, b.position, clock.now, b.status, b.route, b.detail
    from moved
    cross join clock
    cross join jsonb_to_recordset(:attempts::text::jsonb) as b (
        router text, event text, number integer, position bigint, status text, route text,
        detail text
    )
    on conflict (router, event, number) do nothing
),
lettered as (
    insert into offpath.letter (
        id, router, event_id, position, number, created_at, route, reason, detail, event
    )
    select
        b.id, b.router, b.event_id, b.position, b.number, clock.now, b.route, b.reason, b.detail,
        b.event
    from moved
    cross join clock
    cross join jsonb_to_recordset(:letters::text::jsonb) as b (
        id text, router text, event_id text, position bigint, number integer, route text,
        reason text, detail text, event text
    )
    on conflict (id) do nothing
)
select 1 from moved

-- name: table_columns
-- The columns of a table, and whether they may be null.
select a.attname::text, (not a.attnotnull)::int
from pg_attribute a
where a.attrelid = to_regclass(:table::text) and a.attnum > 0 and not a.attisdropped

-- name: router_facts
-- What must fit together in a router's records, as JSON; no row for an unknown router.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
mine as materialized (
    select l.position, l.id, l.at, c.position as reached, c.start
    from offpath.router r
    join offpath.log l on l.domain = r.domain
    join offpath.cursor c on c.router = r.name and c.partition = l.slot % r.partitions
    where r.name = :router::text
)
select json_build_object(
    'head', coalesce((select max(m.position) from mine m), 0),
    'horizon', :horizon::bigint,
    'events_passed', (
        select count(*) from mine m where m.position <= m.reached and m.position > m.start
    ),
    'events_with_attempt', (
        select count(*)
        from mine m
        where m.position <= m.reached
            and m.position > m.start
            and exists (
                select from offpath.attempt a
                where a.router = r.name and a.event = m.id and a.number = 1
            )
    ),
    'attempts_without_event', (
        select count(*)
        from offpath.attempt a
        where a.router = r.name
            and not exists (select from offpath.log l where l.id = a.event)
            and not exists (
                select from offpath.letter t where t.router = r.name and t.event_id = a.event
            )
    ),
    'attempts_ahead', (
        select count(*)
        from offpath.attempt a
        join mine m on m.id = a.event
        where a.router = r.name and m.position > m.reached
    ),
    'failed_without_letter', (
        select count(distinct a.event)
        from offpath.attempt a
        where a.router = r.name
            and a.status = 'failed'
            and not exists (
                select from offpath.letter t where t.router = r.name and t.event_id = a.event
            )
    ),
    'letters_without_failure', (
        select count(*)
        from offpath.letter t
        where t.router = r.name
            and not exists (
                select from offpath.attempt a
                where a.router = r.name and a.event = t.event_id and a.status = 'failed'
            )
    ),
    'open_letters', (
        select count(*) from offpath.letter t where t.router = r.name and t.resolved_at is null
    ),
    'oldest_lag', coalesce(
        (
            select greatest(
                offpath.micros(clock.now)::float8 - offpath.micros(min(m.at))::float8, 0
            ) / 1000000
            from mine m
            where m.position > m.reached
        ),
        0
    )
)::text
from offpath.router r
cross join clock
where r.name = :router::text
