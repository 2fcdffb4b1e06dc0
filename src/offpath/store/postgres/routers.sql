-- name: routers
-- Every router or one, by name. Routes and cursors are JSON lists.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
select
    r.name, r.domain, r.partitions,
    coalesce(
        (select (g.state = 'open')::int from offpath.gate g where g.name = 'router:' || r.name), 0
    ),
    coalesce((select (g.state = 'open')::int from offpath.gate g where g.name = '*'), 0),
    offpath.micros(r.created_at),
    coalesce(
        (
            select json_agg(
                json_build_object(
                    'name', t.name, 'type', t.type, 'stream', t.stream, 'deliver', t.deliver,
                    'enabled', t.enabled::int, 'dry_run', t.dry_run::int
                )
                order by t.place, t.name
            )
            from offpath.route t
            where t.router = r.name
        ),
        '[]'
    )::text,
    coalesce(
        (
            select json_agg(
                json_build_object(
                    'partition', c.partition, 'position', c.position,
                    'holder', case when c.held_until > clock.now then c.holder end,
                    'passed', c.passed, 'ran_at', offpath.micros(c.ran_at), 'summary', c.summary,
                    'mark', c.mark
                )
                order by c.partition
            )
            from offpath.cursor c
            where c.router = r.name
        ),
        '[]'
    )::text
from offpath.router r
cross join clock
where :name::text is null or r.name = :name::text
order by r.name
limit 1000

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
select :router::text, p, :position::bigint, :position::bigint, :mark::text
from generate_series(0, :partitions::int - 1) as p
on conflict (router, partition) do nothing

-- name: add_routes
-- The routes that a router lacks, behind those that it has; others keep their switches and learn what
-- they deliver to.
insert into offpath.route as r (
    router, name, place, type, stream, deliver, enabled, dry_run
)
select
    :router::text, b.value ->> 0, last.place + (b.value ->> 1)::integer, b.value ->> 2,
    b.value ->> 3, b.value ->> 4, (b.value ->> 5)::boolean, (b.value ->> 6)::boolean
from jsonb_array_elements(:routes::text::jsonb) as b
cross join (
    select coalesce(max(k.place), -1) + 1 as place
    from offpath.route k
    where k.router = :router::text
) as last
on conflict (router, name) do update set deliver = excluded.deliver
where r.deliver <> excluded.deliver

-- name: set_gate
-- Opens or closes a router's gate, or with no name the master's.
insert into offpath.gate as g (name, state)
select
    coalesce('router:' || :router::text, '*'),
    case when :opened::int = 1 then 'open' else 'closed' end
where :router::text is null or exists (select from offpath.router r where r.name = :router::text)
on conflict (name) do update set state = excluded.state
returning 1

-- name: set_route
-- Turns a route's switches; those not given stay.
update offpath.route r
set enabled = coalesce(:enabled::int::boolean, r.enabled),
    dry_run = coalesce(:dry_run::int::boolean, r.dry_run)
where r.router = :router::text and r.name = :route::text
returning 1

-- name: lease_cursor
-- Takes a cursor that is free, or is held by the one who asks.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.cursor c
set holder = :holder::text,
    held_until = (select clock.now from clock) + :lease::double precision * interval '1 second'
where c.router = :router::text
    and c.partition = :partition::int
    and (
        c.holder is null
        or c.holder = :holder::text
        or c.held_until <= (select clock.now from clock)
    )
returning
    c.position, c.holder, c.passed, offpath.micros(c.ran_at), c.summary, c.mark

-- name: has_cursor
-- Whether there is such a cursor.
select 1 from offpath.cursor c where c.router = :router::text and c.partition = :partition::int

-- name: release_cursor
-- Gives a cursor back.
update offpath.cursor c
set holder = null, held_until = null
where c.router = :router::text and c.partition = :partition::int and c.holder = :holder::text

-- name: move_cursor
-- Puts a cursor elsewhere and takes it from its holder. What it jumps over on its way forth is
-- not this router's any more; what it comes back to is again.
update offpath.cursor c
set start = case
        when :position::bigint > c.position then :position::bigint
        else least(c.start, :position::bigint)
    end,
    position = :position::bigint,
    mark = null,
    holder = null,
    held_until = null
where c.router = :router::text and c.partition = :partition::int
returning 1

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
-- Moves a cursor on, if it is still held by the one who says so; with no holder given it must be
-- locked by this transaction, and is taken from one whose lease has ended, who may be about to write
-- still. No row in the answer when it is not.
update offpath.cursor c
set position = greatest(c.position, :position::bigint),
    mark = case when :position::bigint > c.position then :mark::text else c.mark end,
    -- a repeat passes nothing
    passed = c.passed + case when :position::bigint > c.position then :passed::bigint else 0 end,
    ran_at = coalesce(:now::text::timestamptz, clock_timestamp()),
    summary = coalesce(:summary::text, c.summary),
    holder = case when :holder::text is not null then c.holder end,
    held_until = case when :holder::text is not null then c.held_until end
where c.router = :router::text
    and c.partition = :partition::int
    and (:holder::text is null or c.holder = :holder::text)
returning 1

-- name: add_attempts
-- What was decided; what was recorded before stays. It goes out together with the move of the cursor
-- and is written only if that was done: nobody else has a cursor that was moved in this transaction.
insert into offpath.attempt (router, event, number, position, status, route, detail, at)
select
    b.value ->> 0, b.value ->> 1, (b.value ->> 2)::integer, (b.value ->> 3)::bigint,
    b.value ->> 4, b.value ->> 5, b.value ->> 6,
    coalesce(:now::text::timestamptz, clock_timestamp())
from jsonb_array_elements(:batch::text::jsonb) as b
where
    exists (
        select from offpath.cursor c
        where c.router = :router::text
            and c.partition = :partition::int
            and (:holder::text is null or c.holder = :holder::text)
    )
on conflict (router, event, number) do nothing

-- name: add_letters
-- Dead letters, in the same way.
insert into offpath.letter (
    id, router, event_id, position, number, route, reason, detail, event, created_at
)
select
    b.value ->> 0, b.value ->> 1, b.value ->> 2, (b.value ->> 3)::bigint,
    (b.value ->> 4)::integer, b.value ->> 5, b.value ->> 6, b.value ->> 7, b.value ->> 8,
    coalesce(:now::text::timestamptz, clock_timestamp())
from jsonb_array_elements(:batch::text::jsonb) as b
where
    exists (
        select from offpath.cursor c
        where c.router = :router::text
            and c.partition = :partition::int
            and (:holder::text is null or c.holder = :holder::text)
    )
on conflict (id) do nothing

-- name: router_facts
-- What must fit together in a router's records, its lag in microseconds; no row for an unknown router.
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
select
    coalesce((select max(m.position) from mine m), 0),
    (
        select count(*) from mine m where m.position <= m.reached and m.position > m.start
    ),
    (
        select count(*)
        from mine m
        where m.position <= m.reached
            and m.position > m.start
            and exists (
                select from offpath.attempt a
                where a.router = r.name and a.event = m.id and a.number = 1
            )
    ),
    (
        select count(*)
        from offpath.attempt a
        where a.router = r.name
            and not exists (select from offpath.log l where l.id = a.event)
            and not exists (
                select from offpath.letter t where t.router = r.name and t.event_id = a.event
            )
    ),
    (
        select count(*)
        from offpath.attempt a
        join mine m on m.id = a.event
        where a.router = r.name and m.position > m.reached
    ),
    (
        select count(distinct a.event)
        from offpath.attempt a
        where a.router = r.name
            and a.status = 'failed'
            and not exists (
                select from offpath.letter t where t.router = r.name and t.event_id = a.event
            )
    ),
    (
        select count(*)
        from offpath.letter t
        where t.router = r.name
            and not exists (
                select from offpath.attempt a
                where a.router = r.name and a.event = t.event_id and a.status = 'failed'
            )
    ),
    (
        select count(*) from offpath.letter t where t.router = r.name and t.resolved_at is null
    ),
    coalesce(
        (
            -- of fractions: the difference to a time that was written by hand may pass a bigint
            select greatest(
                offpath.micros(clock.now)::float8 - offpath.micros(min(m.at))::float8, 0
            )
            from mine m
            where m.position > m.reached
        ),
        0
    )
from offpath.router r
cross join clock
where r.name = :router::text

-- name: table_columns
-- The columns of a table, and whether they may be null.
select a.attname::text, (not a.attnotnull)::int
from pg_attribute a
where a.attrelid = to_regclass(format('%I.%I', :schema::text, :name::text))
    and a.attnum > 0
    and not a.attisdropped
