-- name: limits
-- Known keys by name.
select
    key, max_running, rate, admitted,
    admitted - (
        select count(*) from offpath_job as job
        where
            job.state = 'ready' and job.limit_key is not null
            and job.limit_key = offpath_limit.key
    ),
    (
        select count(*) from (
            select 1 from offpath_job as job
            where
                job.state = 'blocked' and job.reason = 'limit'
                and job.limit_key = offpath_limit.key
            limit 100000
        )
    ),
    case when closed_until > :now then closed_until end, paused
from offpath_limit
where key > coalesce(:after, '')
    and (:keys is null or key in (select value from json_each(:keys)))
order by key
limit :limit

-- name: some_limits
-- These keys, by name.
select
    key, max_running, rate, admitted,
    admitted - (
        select count(*) from offpath_job as job
        where
            job.state = 'ready' and job.limit_key is not null
            and job.limit_key = offpath_limit.key
    ),
    (
        select count(*) from (
            select 1 from offpath_job as job
            where
                job.state = 'blocked' and job.reason = 'limit'
                and job.limit_key = offpath_limit.key
            limit 100000
        )
    ),
    case when closed_until > :now then closed_until end, paused
from offpath_limit
where key in (select value from json_each(:keys)) and (:after is null or key > :after)
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
