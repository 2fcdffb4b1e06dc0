-- name: pause_queue
-- Nothing of a queue is handed out by a lease that begins after this has been committed.
insert into offpath_queue_pause (name, until) values (:queue, :until)
on conflict (name) do update set until = excluded.until

-- name: resume_queue
-- Its jobs are handed out again; says whether it was paused. (In what a DELETE returns of a STRICT
-- table, SQLite 3.40 takes "is null" to be false.)
delete from offpath_queue_pause where name = :queue
returning coalesce(until > :now, 1)

-- name: queues
-- Queues with unended jobs or a pause; each count stops at 100,000.
--
-- The queues of each kind are stepped to where an index has the next one; running jobs, which are few,
-- are walked. (The second column of an order keeps the planner on the index of the held ones.)
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
),
line (key) as (
    select (
        select job.limit_key from offpath_job as job
        where job.state = 'blocked' and job.reason = 'limit'
        order by job.limit_key, job.queue limit 1
    )
    union all
    select (
        select job.limit_key from offpath_job as job
        where job.state = 'blocked' and job.reason = 'limit' and job.limit_key > line.key
        order by job.limit_key, job.queue limit 1
    )
    from line where line.key is not null
),
lane (key, queue) as (
    select
        line.key,
        (
            select job.queue from offpath_job as job
            where job.state = 'blocked' and job.reason = 'limit' and job.limit_key = line.key
            order by job.queue limit 1
        )
    from line where line.key is not null
    union all
    select
        lane.key,
        (
            select job.queue from offpath_job as job
            where
                job.state = 'blocked' and job.reason = 'limit' and job.limit_key = lane.key
                and job.queue > lane.queue
            order by job.queue limit 1
        )
    from lane where lane.queue is not null
),
held (queue, jobs) as (
    select
        lane.queue,
        (
            select count(*) from (
                select 1 from offpath_job as job
                where
                    job.state = 'blocked' and job.reason = 'limit'
                    and job.limit_key = lane.key and job.queue = lane.queue
                limit 100000
            )
        )
    from lane where lane.queue is not null
),
running (queue, jobs) as (
    select few.queue, count(*)
    from (select job.queue from offpath_job as job where job.state = 'running' limit 100000) as few
    group by few.queue
),
pauses (queue, until) as (
    select name, until from offpath_queue_pause where until is null or until > :now
),
named (queue) as (
    select queue from ready where queue is not null
    union select queue from scheduled where queue is not null
    union select queue from blocked where queue is not null
    union select queue from held
    union select queue from running
    union select queue from pauses
),
counted as (
    select
        named.queue,
        coalesce((select sum(held.jobs) from held where held.queue = named.queue), 0) as held,
        (
            select count(*) from (
                select 1 from offpath_job as job
                where
                    job.state = 'blocked' and job.reason <> 'limit' and job.queue = named.queue
                limit 100000
            )
        ) as blocked
    from named
)
select
    counted.queue,
    counted.blocked + counted.held,
    counted.held,
    (
        select count(*) from (
            select 1 from offpath_job as job
            where job.state = 'scheduled' and job.queue = counted.queue limit 100000
        )
    ),
    (
        select count(*) from (
            select 1 from offpath_job as job
            where job.state = 'ready' and job.queue = counted.queue limit 100000
        )
    ),
    coalesce((select running.jobs from running where running.queue = counted.queue), 0),
    pauses.queue is not null and pauses.until is null,
    pauses.until
from counted
left join pauses on pauses.queue = counted.queue
order by counted.queue
