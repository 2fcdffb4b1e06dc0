-- part: lane_walk
-- The pairs of task and queue that have ready or scheduled jobs: stepped to, by an index each.
ready_line (task) as (
    select (
        select job.task from offpath_job as job
        where job.state = 'ready'
        order by job.task limit 1
    )
    union all
    select (
        select job.task from offpath_job as job
        where job.state = 'ready' and job.task > ready_line.task
        order by job.task limit 1
    )
    from ready_line where ready_line.task is not null
),
ready_lane (task, queue) as (
    select
        ready_line.task,
        (
            select job.queue from offpath_job as job
            where job.state = 'ready' and job.task = ready_line.task
            order by job.queue limit 1
        )
    from ready_line where ready_line.task is not null
    union all
    select
        ready_lane.task,
        (
            select job.queue from offpath_job as job
            where
                job.state = 'ready' and job.task = ready_lane.task
                and job.queue > ready_lane.queue
            order by job.queue limit 1
        )
    from ready_lane where ready_lane.queue is not null
),
scheduled_line (task) as (
    select (
        select job.task from offpath_job as job
        where job.state = 'scheduled'
        order by job.task limit 1
    )
    union all
    select (
        select job.task from offpath_job as job
        where job.state = 'scheduled' and job.task > scheduled_line.task
        order by job.task limit 1
    )
    from scheduled_line where scheduled_line.task is not null
),
scheduled_lane (task, queue) as (
    select
        scheduled_line.task,
        (
            select job.queue from offpath_job as job
            where job.state = 'scheduled' and job.task = scheduled_line.task
            order by job.queue limit 1
        )
    from scheduled_line where scheduled_line.task is not null
    union all
    select
        scheduled_lane.task,
        (
            select job.queue from offpath_job as job
            where
                job.state = 'scheduled' and job.task = scheduled_lane.task
                and job.queue > scheduled_lane.queue
            order by job.queue limit 1
        )
    from scheduled_lane where scheduled_lane.queue is not null
),

-- part: handed_out
-- A job that a worker is given.
state = 'running',
worker = :worker,
deliveries = deliveries + 1,
started_at = :now,
reason = null,
unique_slot = case
    when unique_key is null then null
    when not instr(unique_states, 'running') then null
    when unique_slot is not null then unique_slot
    when unique_until <= :now then null
    when
        not exists (
            select 1 from offpath_job as other
            where other.unique_slot = offpath_job.unique_key
        )
        then unique_key
end

-- part: may_have_key
-- A ready job whose unique key nobody else has, or that does not need it to run.
best.unique_key is null
or best.unique_slot is not null
or not instr(best.unique_states, 'running')
or best.unique_until <= :now
or not exists (
    select 1 from offpath_job as other
    where other.unique_slot = best.unique_key and other.finished_at is null
)

-- part: held_limits
-- The limits that have held jobs, one step each. (The second column of the order keeps the planner
-- on the index of the held ones.)
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

-- part: kept_key
-- A job that a change lets have its unique key keeps it, or takes it if nobody has it.
when unique_slot is not null then unique_slot
when
    (unique_until is null or unique_until > :now)
    and not exists (
        select 1 from offpath_job as other
        where other.unique_slot = offpath_job.unique_key
    )
    then unique_key
