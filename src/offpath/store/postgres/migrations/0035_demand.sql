-- What a fleet has to do, for what scales it: one number, never null, whatever waits.

-- Jobs of these queues that are due or run now, counted to 10,000; those of all queues without any.
-- Running ones count, or a pool that works on its last jobs would be taken away from them.
--
-- Lanes are stepped over, so a backlog of other queues costs a look for each task of it.
create function offpath.demand(queues text[] default null) returns integer
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
with recursive lanes (task, queue) as (
    (
        select j.task, j.queue
        from offpath.job j
        where j.state = 'ready'
        order by j.task, j.queue
        limit 1
    )
    union all
    select next.task, next.queue
    from lanes l
    cross join lateral (
        select j.task, j.queue
        from offpath.job j
        where j.state = 'ready' and (j.task, j.queue) > (l.task, l.queue)
        order by j.task, j.queue
        limit 1
    ) as next
),
wanted (task, queue) as (
    select l.task, l.queue
    from lanes l
    where cardinality(coalesce(demand.queues, '{}')) = 0 or l.queue = any (demand.queues)
),
found as (
    (
        select 1
        from wanted w
        cross join lateral (
            select 1
            from offpath.job j
            where j.state = 'ready' and j.task = w.task and j.queue = w.queue
            limit 10000
        ) as waiting
        limit 10000
    )
    union all
    (
        select 1
        from offpath.job j
        where j.state = 'running'
            and (cardinality(coalesce(demand.queues, '{}')) = 0 or j.queue = any (demand.queues))
        limit 10000
    )
    union all
    (
        select 1
        from offpath.job j
        where j.state = 'scheduled'
            and j.run_at <= clock_timestamp()
            and (cardinality(coalesce(demand.queues, '{}')) = 0 or j.queue = any (demand.queues))
        limit 10000
    )
)
select least(count(*), 10000)::integer from found
$$;

-- Events that a router has yet to pass, counted to 10,000; 0 for a router that does not exist.
create function offpath.lag(router text) returns integer
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
select least(coalesce(sum(behind.events), 0), 10000)::integer
from offpath.router r
join offpath.cursor c on c.router = r.name and c.mark is null
cross join lateral (
    select count(*) as events
    from (
        select 1
        from offpath.log l
        where l.domain = r.domain
            and l.position > c.position
            and l.slot % r.partitions = c.partition
        limit 10000
    ) as unrouted
) as behind
where r.name = lag.router
$$;

-- Whoever may call them learns counts of every queue: nobody, until it is granted.
revoke all on function offpath.demand(text[]) from public;
revoke all on function offpath.lag(text) from public;
