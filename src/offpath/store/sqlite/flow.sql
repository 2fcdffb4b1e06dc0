-- part: limit_columns
-- What is known of a limit, and what runs and waits by it.
    key, max_running, rate, admitted + shared,
    admitted + shared - (
        select count(*) from offpath_job as job
        where
            job.state = 'ready' and job.limit_key is not null
            and job.limit_key = offpath_limit.key
    ) - (
        select coalesce(sum(part.cost), 0)
        from offpath_limit_part as part
        cross join offpath_job as job on job.limit_key = part.line
        where part.key = offpath_limit.key and job.state = 'ready' and job.limit_key is not null
    ),
    (
        select count(*) from (
            select 1 from offpath_job as job
            where
                job.state = 'blocked' and job.reason = 'limit'
                and job.limit_key = offpath_limit.key
            limit 100000
        )
    ) + (
        select count(*) from (
            select 1
            from offpath_limit_part as part
            cross join offpath_job as job on job.limit_key = part.line
            where
                part.key = offpath_limit.key
                and job.state = 'blocked' and job.reason = 'limit'
            limit 100000
        )
    ),
    case when closed_until > :now then closed_until end, paused
from offpath_limit

-- name: limits
-- Known keys by name.
select
/* part: limit_columns */
where key > coalesce(:after, '') and parts = 0
    and (:keys is null or key in (select value from json_each(:keys)))
order by key
limit :limit

-- name: some_limits
-- These keys, by name.
select
/* part: limit_columns */
where key in (select value from json_each(:keys)) and parts = 0
    and (:after is null or key > :after)
order by key
limit :limit

-- name: count_held
-- Held jobs of all keys, counted up to a limit. (The order keeps the planner on the index of them.)
select count(*) from (
    select 1 from offpath_job as job
    where job.state = 'blocked' and job.reason = 'limit'
    order by job.limit_key, job.queue
    limit :limit
)

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
-- Queues with unended jobs or a pause; each count stops at a limit.
--
-- The queues of each kind are stepped to where an index has the next one; running jobs, which are few,
-- are walked. (The second column of an order keeps the planner on the index of the held ones.)
with recursive
/* part: lane_walk */
ready (queue, jobs) as (
    select
        ready_lane.queue,
        (
            select count(*) from (
                select 1 from offpath_job as job
                where
                    job.state = 'ready' and job.task = ready_lane.task
                    and job.queue = ready_lane.queue
                limit :most
            )
        )
    from ready_lane where ready_lane.queue is not null
),
scheduled (queue, jobs) as (
    select
        scheduled_lane.queue,
        (
            select count(*) from (
                select 1 from offpath_job as job
                where
                    job.state = 'scheduled' and job.task = scheduled_lane.task
                    and job.queue = scheduled_lane.queue
                limit :most
            )
        )
    from scheduled_lane where scheduled_lane.queue is not null
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
    /* part: held_limits */
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
                limit :most
            )
        )
    from lane where lane.queue is not null
),
running (queue, jobs) as (
    select few.queue, count(*)
    from (select job.queue from offpath_job as job where job.state = 'running' limit :most) as few
    group by few.queue
),
pauses (queue, until) as (
    select name, until from offpath_queue_pause where until is null or until > :now
),
named (queue) as (
    select queue from ready
    union select queue from scheduled
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
                limit :most
            )
        ) as blocked
    from named
)
select
    counted.queue,
    counted.blocked + counted.held,
    counted.held,
    coalesce(
        (select min(sum(each.jobs), :most) from scheduled as each where each.queue = counted.queue),
        0
    ),
    coalesce(
        (select min(sum(each.jobs), :most) from ready as each where each.queue = counted.queue), 0
    ),
    coalesce((select running.jobs from running where running.queue = counted.queue), 0),
    pauses.queue is not null and pauses.until is null,
    pauses.until
from counted
left join pauses on pauses.queue = counted.queue
order by counted.queue
