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
