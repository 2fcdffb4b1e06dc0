-- Routers for whoever works in SQL: views of what they decided, and a run in the caller's transaction.

create view offpath.v_router_status with (security_barrier) as
select
    r.name as router,
    r.domain,
    c.partition,
    coalesce((select g.state = 'open' from offpath.gate g where g.name = '*'), false) as master_open,
    coalesce(
        (select g.state = 'open' from offpath.gate g where g.name = 'router:' || r.name), false
    ) as router_open,
    c.position,
    c.passed,
    c.ran_at as last_run_at,
    c.summary as last_run_summary,
    c.held_until is not null and c.held_until > clock_timestamp() as running,
    (
        select min(l.at)
        from offpath.log l
        where l.domain = r.domain
            and l.position > c.position
            and l.slot % r.partitions = c.partition
            and c.mark is null
    ) as oldest_unrouted_at,
    (
        select count(*) from offpath.letter t where t.router = r.name and t.resolved_at is null
    ) as open_letters
from offpath.router r
join offpath.cursor c on c.router = r.name;

-- The key by which receivers drop repeats, and by which an event's way is found: unique with the number.
create view offpath.v_router_attempts with (security_barrier) as
select
    a.router || ':' || a.route || ':' || a.event as idempotency_key,
    a.number as attempt_no,
    a.router,
    a.route,
    a.event,
    a.position,
    a.status,
    a.at
from offpath.attempt a;

create view offpath.v_router_letters with (security_barrier) as
select
    t.router || ':' || t.route || ':' || t.event_id as idempotency_key,
    t.number as attempt_no,
    t.id,
    t.router,
    t.route,
    t.event_id as event,
    t.position,
    t.reason,
    t.created_at,
    t.resolved_at,
    t.resolution
from offpath.letter t;

-- How specific a pattern is for a name, and -1 where it does not match: as the rule in Python.
create function offpath.router_rank(pattern text, name text) returns integer
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when pattern = name then 1000000
        when pattern = '*' then 0
        when right(pattern, 2) = '.*' and starts_with(name, left(pattern, -1)) then length(pattern)
        else -1
    end
$$;

-- Whoever may have written to the log, but this transaction: by transaction, and '-1/' for a prepared one.
create function offpath.router_writers() returns text[]
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(k.virtualtransaction), '{}')
    from pg_locks k
    where k.locktype = 'relation'
        and k.relation = 'offpath.log'::regclass
        and k.database = (select d.oid from pg_database d where d.datname = current_database())
        and k.mode = 'RowExclusiveLock'
        and k.granted
        and k.pid is distinct from pg_backend_pid()
$$;

-- One run of a router in the caller's transaction. It decides as a worker does, and delivers what is
-- delivered to a stream of the outbox. A live route that delivers otherwise needs Python: it is refused
-- before anything is done. The answer is what was passed, by status, or why nothing was.
create function offpath.router_run(router text, max_events integer default 1000) returns jsonb
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    mine offpath.router%rowtype;
    other offpath.route%rowtype;
    event offpath.log%rowtype;
    settled bigint;
    awaited text[];
    looks integer := 0;
    place bigint;
    last_one bigint;
    count_here integer;
    total integer := 0;
    status text;
    reason text;
    detail text;
    counts jsonb;
    all_counts jsonb := '{}';
    busy integer[] := '{}';
begin
    if max_events is null or max_events not between 1 and 100000 then
        raise exception 'max_events is a number from 1 to 100000' using errcode = '22023';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'a run needs the isolation read committed: it must see what commits meanwhile'
            using errcode = '0A000';
    end if;
    select r.* into mine from offpath.router r where r.name = router_run.router;
    if not found then
        raise exception 'there is no router %: it is declared by its app', router_run.router
            using errcode = '22023';
    end if;
    if not exists (select from offpath.gate g where g.name = '*' and g.state = 'open') then
        return jsonb_build_object('router', mine.name, 'passed', 0, 'stopped', 'gate: master');
    end if;
    if not exists (
        select from offpath.gate g where g.name = 'router:' || mine.name and g.state = 'open'
    ) then
        return jsonb_build_object('router', mine.name, 'passed', 0, 'stopped', 'gate: ' || mine.name);
    end if;
    if exists (
        select from offpath.cursor c where c.router = mine.name and c.mark is not null
    ) then
        raise exception 'router % reads a table of your own: run it in Python', mine.name
            using errcode = '0A000';
    end if;
    select t.* into other
    from offpath.route t
    where t.router = mine.name
        and t.enabled and not t.dry_run
        and t.deliver <> '' and not starts_with(t.deliver, 'outbox:')
    order by t.name
    limit 1;
    if found then
        raise exception 'route % is live and delivers to %, which SQL cannot', other.name, other.deliver
            using errcode = '0A000', hint = 'make it a dry run, deliver to an outbox, or run it in Python';
    end if;

    -- Positions first, writers after: whoever comes between the two is among the writers. What was given
    -- until here is settled once those are gone that were writing then.
    select case when s.is_called then s.last_value else 0 end into settled
    from offpath.log_position_seq s;
    awaited := offpath.router_writers();
    while exists (
        select from unnest(offpath.router_writers()) as w
        where w = any (awaited) or starts_with(w, '-1/')
    ) loop
        looks := looks + 1;
        if looks > 50 then
            return jsonb_build_object('router', mine.name, 'passed', 0, 'stopped', 'open writers of the log');
        end if;
        perform pg_sleep(0.02);
    end loop;

    for part in 0 .. mine.partitions - 1 loop
        select c.position into place
        from offpath.cursor c
        where c.router = mine.name
            and c.partition = part
            and (c.holder is null or c.held_until <= clock_timestamp())
        for update skip locked;
        if not found then
            busy := busy || part;
            continue;
        end if;
        count_here := 0;
        counts := '{}';
        last_one := place;
        for event in
            select l.*
            from offpath.log l
            where l.domain = mine.domain
                and l.position > place
                and l.position <= settled
                and l.slot % mine.partitions = part
            order by l.position
            limit max_events
        loop
            count_here := count_here + 1;
            last_one := event.position;
            continue when exists (
                select from offpath.attempt a where a.router = mine.name and a.event = event.id
            );
            select t.* into other
            from offpath.route t
            where t.router = mine.name
                and offpath.router_rank(t.type, event.type) >= 0
                and offpath.router_rank(t.stream, event.stream) >= 0
            order by
                offpath.router_rank(t.type, event.type) desc,
                offpath.router_rank(t.stream, event.stream) desc,
                t.name
            limit 1;
            reason := null;
            detail := null;
            if not found then
                other.name := '-';
                status := 'skipped';
            elsif not other.enabled then
                status := 'disabled';
            elsif other.dry_run then
                status := 'dry_run';
            elsif other.deliver = '' then
                status := 'failed';
                reason := 'not_supported';
                detail := 'the route is live and has nothing to deliver with';
            else
                -- a boundary of its own: one bad event holds nobody back
                begin
                    insert into offpath.message (
                        id, created_at, due_at, box, stream, topic, key, payload
                    )
                    values (
                        gen_random_uuid()::text, clock_timestamp(), clock_timestamp(), 'out',
                        substr(other.deliver, 8), event.type, event.key, event.payload
                    );
                    status := 'sent';
                exception when others then
                    status := 'failed';
                    reason := 'broken';
                    detail := left(sqlstate || ': ' || sqlerrm, 300);
                end;
            end if;
            insert into offpath.attempt (router, event, number, position, status, route, detail, at)
            values (
                mine.name, event.id, 1, event.position, status, other.name, detail, clock_timestamp()
            );
            if status = 'failed' then
                insert into offpath.letter (
                    id, router, event_id, position, number, route, reason, detail, event, created_at
                )
                values (
                    gen_random_uuid()::text, mine.name, event.id, event.position, 1, other.name, reason,
                    detail,
                    jsonb_build_object(
                        'position', event.position, 'id', event.id, 'domain', event.domain,
                        'type', event.type, 'stream', event.stream, 'payload', event.payload,
                        'at', to_char(event.at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                        'key', event.key, 'headers', event.headers
                    )::text,
                    clock_timestamp()
                );
            end if;
            counts := jsonb_set(
                counts, array[status], to_jsonb(coalesce((counts ->> status)::integer, 0) + 1)
            );
            all_counts := jsonb_set(
                all_counts, array[status], to_jsonb(coalesce((all_counts ->> status)::integer, 0) + 1)
            );
        end loop;
        update offpath.cursor c
        set position = greatest(
                c.position, case when count_here < max_events then settled else last_one end
            ),
            passed = c.passed + count_here,
            ran_at = clock_timestamp(),
            summary = counts::text,
            holder = null,
            held_until = null
        where c.router = mine.name and c.partition = part;
        total := total + count_here;
    end loop;
    return jsonb_build_object(
        'router', mine.name,
        'passed', total,
        'counts', all_counts,
        'busy', to_jsonb(busy),
        'stopped', case when cardinality(busy) > 0 then 'busy' end
    );
end
$$;
