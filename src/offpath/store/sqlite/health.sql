-- name: dead_tasks
-- The newest dead jobs since a time, by task.
select task, count(*) from (
    select job.task from offpath_job as job
    where job.state = 'dead' and job.finished_at >= :since
    order by job.finished_at desc
    limit :limit
)
group by task

-- name: dead_messages
-- Dead messages of one stream since a time, counted up to a limit.
select count(*) from (
    select 1 from offpath_message as message
    where
        message.state = 'dead' and message.box = :box and message.stream = :stream
        and message.finished_at >= :since
    limit :limit
)

-- name: dead_routings
-- The newest letters since a time that nobody has resolved, by router.
select router, count(*) from (
    select letter.router from offpath_letter as letter
    where letter.resolved_at is null and letter.created_at >= :since
    order by letter.created_at desc
    limit :limit
)
group by router

-- name: limit_holders
-- Running jobs of these keys, those that began last first.
select job.limit_key, job.id, job.task, job.started_at from offpath_job as job
where
    job.limit_key in (select value from json_each(:keys))
    and job.state = 'running' and job.started_at is not null
order by job.started_at desc, job.id desc

-- name: router_lags
-- When the oldest event of each router that it has not passed was written, and its gates.
select
    router.name,
    coalesce((select gate.open from offpath_gate as gate where gate.router = router.name), 0)
    and coalesce((select gate.open from offpath_gate as gate where gate.router = ''), 0),
    (
        select min(
            (
                select next.at from (
                    select event.position, event.at, event.slot from offpath_log as event
                    where event.domain = router.domain and event.position > cursor.position
                    order by event.position
                    limit 10000
                ) as next
                where next.slot % router.partitions = cursor.partition
                order by next.position
                limit 1
            )
        )
        from offpath_cursor as cursor
        where cursor.router = router.name
    )
from offpath_router as router
order by router.name
limit 1000
