-- name: pause_list
-- Queues that hand out nothing now.
select name, until from offpath_queue_pause where until is null or until > :now

-- name: pause_put
insert into offpath_queue_pause (name, until) values (:name, :until)
on conflict (name) do update set until = excluded.until

-- name: pause_end
delete from offpath_queue_pause where name = :name
returning until

-- name: queue_names
-- Queues with unended jobs: one probe each; of the running, which are few, a walk.
with recursive
ready (queue) as (
    select (
        select job.queue from offpath_job as job
        where job.state = 'ready' order by job.queue limit 1
    )
    union all
    select (
        select job.queue from offpath_job as job
        where job.state = 'ready' and job.queue > ready.queue order by job.queue limit 1
    )
    from ready where ready.queue is not null
),
scheduled (queue) as (
    select (
        select job.queue from offpath_job as job
        where job.state = 'scheduled' order by job.queue limit 1
    )
    union all
    select (
        select job.queue from offpath_job as job
        where job.state = 'scheduled' and job.queue > scheduled.queue order by job.queue limit 1
    )
    from scheduled where scheduled.queue is not null
),
blocked (queue) as (
    select (
        select job.queue from offpath_job as job
        where job.state = 'blocked' and job.reason <> 'limit' order by job.queue limit 1
    )
    union all
    select (
        select job.queue from offpath_job as job
        where job.state = 'blocked' and job.reason <> 'limit' and job.queue > blocked.queue
        order by job.queue limit 1
    )
    from blocked where blocked.queue is not null
)
select queue from ready where queue is not null
union select queue from scheduled where queue is not null
union select queue from blocked where queue is not null

-- name: queue_running
-- Running jobs by queue.
select held.queue, count(*) from (
    select queue from offpath_job where state = 'running' limit :limit
) as held
group by 1

-- name: queue_counts
-- The waiting jobs of a queue, held ones left out, each kind counted up to a limit.
select
    (
        select count(*) from (
            select 1 from offpath_job as job
            where job.state = 'blocked' and job.reason <> 'limit' and job.queue = :queue
            limit :limit
        )
    ),
    (
        select count(*) from (
            select 1 from offpath_job as job
            where job.state = 'scheduled' and job.queue = :queue limit :limit
        )
    ),
    (
        select count(*) from (
            select 1 from offpath_job as job
            where job.state = 'ready' and job.queue = :queue limit :limit
        )
    )
