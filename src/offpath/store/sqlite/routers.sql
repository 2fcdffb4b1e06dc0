-- name: routers
-- Every router or one, by name. Routes and cursors are JSON lists.
select
    router.name, router.domain, router.partitions,
    coalesce(
        (select gate.open = 1 from offpath_gate as gate where gate.router = router.name), 0
    ),
    coalesce((select gate.open = 1 from offpath_gate as gate where gate.router = ''), 0),
    router.created_at,
    (
        select json_group_array(json(listed.document)) from (
            select
                json_object(
                    'name', route.name, 'type', route.type, 'stream', route.stream,
                    'deliver', route.deliver, 'enabled', route.enabled, 'dry_run', route.dry_run
                ) as document
            from offpath_route as route
            where route.router = router.name
            order by route.place, route.name
        ) as listed
    ),
    (
        select json_group_array(json(listed.document)) from (
            select
                json_object(
                    'partition', cursor.partition, 'position', cursor.position,
                    'holder', case when cursor.lease_until > :now then cursor.holder end,
                    'passed', cursor.passed, 'ran_at', cursor.ran_at, 'summary', cursor.summary,
                    'mark', cursor.mark
                ) as document
            from offpath_cursor as cursor
            where cursor.router = router.name
            order by cursor.partition
        ) as listed
    )
from offpath_router as router
where :name is null or router.name = :name
order by router.name
limit 1000

-- name: set_gate
-- Opens or closes a router's gate, or with no name the master's.
insert into offpath_gate (router, open)
select coalesce(:router, ''), :opened
where :router is null or exists (select 1 from offpath_router as router where router.name = :router)
on conflict (router) do update set open = excluded.open
returning 1

-- name: set_route
-- The switches of a route; null leaves one as it is.
update offpath_route set
    enabled = coalesce(:enabled, enabled),
    dry_run = coalesce(:dry_run, dry_run)
where router = :router and name = :route
returning 1

-- name: lease_cursor
-- Takes a cursor that is free, or renews it.
update offpath_cursor set
    holder = :holder,
    lease_until = :now + :lease
where
    router = :router and partition = :partition
    and (holder is null or lease_until <= :now or holder = :holder)
returning position, holder, passed, ran_at, summary, mark

-- name: has_cursor
-- Whether there is such a cursor.
select 1 from offpath_cursor where router = :router and partition = :partition

-- name: release_cursor
-- Gives a cursor back.
update offpath_cursor set holder = null, lease_until = null
where router = :router and partition = :partition and holder = :holder

-- name: move_cursor
-- Puts a cursor elsewhere and takes it from whoever holds it. What it jumps over on its way forth
-- is not this router's any more; what it comes back to is again.
update offpath_cursor set
    start = case when :position > position then :position else min(start, :position) end,
    position = :position,
    mark = null,
    holder = null,
    lease_until = null
where router = :router and partition = :partition
returning 1
