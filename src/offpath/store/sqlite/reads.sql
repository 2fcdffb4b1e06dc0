-- part: listed_filter
-- What a list of jobs may be asked for. Whatever is not asked for is null.
and (:tasks is null or job.task in (select value from json_each(:tasks)))
and (:queues is null or job.queue in (select value from json_each(:queues)))
and (:reasons is null or job.reason in (select value from json_each(:reasons)))
and (
    :faults is null
    or (job.state = 'dead' and job.error_key in (select value from json_each(:faults)))
)
and (:parent is null or job.parent = :parent)
and (:enqueued_after is null or job.enqueued_at >= :enqueued_after)
and (:enqueued_before is null or job.enqueued_at < :enqueued_before)
and (:finished_after is null or job.finished_at >= :finished_after)
and (:finished_before is null or job.finished_at < :finished_before)
and (:redrives_below is null or job.redrives < :redrives_below)
and (
    :error_types is null
    or (
        select past.type from offpath_failure as past
        where past.job = job.seq order by past.seq desc limit 1
    ) in (select value from json_each(:error_types))
)
and not exists (
    select 1 from json_each(coalesce(:tags, '[]')) as wanted
    where
        not exists (
            select 1 from json_each(case when json_valid(job.tags) then job.tags else '[]' end) as tag
            where tag.value = wanted.value
        )
)

-- name: get
-- Jobs by id with all their failures.
select
    id, task, queue, state, priority, run_at, enqueued_at, attempt, deliveries, losses, redrives,
    group_id, input, options, fingerprint, parent, dependents, deadline, unique_key, tags, worker,
    cancel_requested, started_at, finished_at, expires_at, result, reason, progress,
    (
        select '[' || group_concat(failure, ',') || ']' from (
            select failure from offpath_failure as past
            where past.job = job.seq
            order by past.seq
        )
    ),
    case when gate_left = 0 then gate end, limit_key, fair_key,
    case when state = 'blocked' and reason = 'signal' then wait_target end,
    case when state = 'blocked' and reason = 'signal' then wait_event end,
    headers
from offpath_job as job
where job.id in (select value from json_each(:ids))

-- name: states
-- The states of jobs by id.
select id, state from offpath_job where id in (select value from json_each(:ids))

-- name: find_newest
-- Jobs that match, with their last failure. Newest first.
select
    job.id, job.task, job.queue, job.state, job.priority, job.run_at, job.enqueued_at, job.attempt, job.deliveries, job.losses, job.redrives,
    job.group_id, job.input, job.options, job.fingerprint, job.parent, job.dependents, job.deadline, job.unique_key, job.tags, job.worker,
    job.cancel_requested, job.started_at, job.finished_at, job.expires_at, job.result, job.reason, job.progress,
    (
        select '[' || past.failure || ']' from offpath_failure as past
        where past.job = job.seq
        order by past.seq desc
        limit 1
    ),
    case when job.gate_left = 0 then job.gate end, job.limit_key, job.fair_key,
    case when job.state = 'blocked' and job.reason = 'signal' then job.wait_target end,
    case when job.state = 'blocked' and job.reason = 'signal' then job.wait_event end,
    job.headers
from (
    select job.id from offpath_job as job
    where
        (:ids is null or job.id in (select value from json_each(:ids)))
        and (:group_id is null or job.group_id = :group_id or job.id = :root)
        and (:after is null or job.id < :after)
        and (:states is null or job.state in (select value from json_each(:states)))
        /* part: listed_filter */
    order by job.id desc
    limit :limit
) as found
cross join offpath_job as job on job.id = found.id
order by job.id desc

-- name: find_oldest
-- Jobs that match, with their last failure. Oldest first.
select
    job.id, job.task, job.queue, job.state, job.priority, job.run_at, job.enqueued_at, job.attempt, job.deliveries, job.losses, job.redrives,
    job.group_id, job.input, job.options, job.fingerprint, job.parent, job.dependents, job.deadline, job.unique_key, job.tags, job.worker,
    job.cancel_requested, job.started_at, job.finished_at, job.expires_at, job.result, job.reason, job.progress,
    (
        select '[' || past.failure || ']' from offpath_failure as past
        where past.job = job.seq
        order by past.seq desc
        limit 1
    ),
    case when job.gate_left = 0 then job.gate end, job.limit_key, job.fair_key,
    case when job.state = 'blocked' and job.reason = 'signal' then job.wait_target end,
    case when job.state = 'blocked' and job.reason = 'signal' then job.wait_event end,
    job.headers
from (
    select job.id from offpath_job as job
    where
        (:ids is null or job.id in (select value from json_each(:ids)))
        and (:group_id is null or job.group_id = :group_id or job.id = :root)
        and (:after is null or job.id > :after)
        and (:states is null or job.state in (select value from json_each(:states)))
        /* part: listed_filter */
    order by job.id
    limit :limit
) as found
cross join offpath_job as job on job.id = found.id
order by job.id

-- name: find_some
-- As the two above, but only among given ids, the jobs of a group, or the dead ones: a table of
-- millions is not walked for a handful.
select
    job.id, job.task, job.queue, job.state, job.priority, job.run_at, job.enqueued_at, job.attempt, job.deliveries, job.losses, job.redrives,
    job.group_id, job.input, job.options, job.fingerprint, job.parent, job.dependents, job.deadline, job.unique_key, job.tags, job.worker,
    job.cancel_requested, job.started_at, job.finished_at, job.expires_at, job.result, job.reason, job.progress,
    (
        select '[' || past.failure || ']' from offpath_failure as past
        where past.job = job.seq
        order by past.seq desc
        limit 1
    ),
    case when job.gate_left = 0 then job.gate end, job.limit_key, job.fair_key,
    case when job.state = 'blocked' and job.reason = 'signal' then job.wait_target end,
    case when job.state = 'blocked' and job.reason = 'signal' then job.wait_event end,
    job.headers
from (
    select job.id
    from (
        select value as id from json_each(coalesce(:ids, '[]'))
        union
        select :group_id where :group_id is not null
        union
        select member.id from offpath_job as member
        where member.group_id = :group_id and member.group_id <> member.id
        union
        select dead.id from offpath_job as dead indexed by offpath_job_dead
        where
            :dead
            and dead.state = 'dead'
            and (
                :after is null
                or case when :newest then dead.id < :after else dead.id > :after end
            )
    ) as candidate
    cross join offpath_job as job
    where
        job.id = candidate.id
        and (
            :after is null
            or case when :newest then job.id < :after else job.id > :after end
        )
        and (:ids is null or job.id in (select value from json_each(:ids)))
        and (:group_id is null or job.group_id = :group_id or job.id = :root)
        and (:states is null or job.state in (select value from json_each(:states)))
        /* part: listed_filter */
    order by case when :newest then job.id end desc, job.id
    limit :limit
) as found
cross join offpath_job as job on job.id = found.id
order by case when :newest then job.id end desc, job.id

-- name: count
-- How many jobs match, by state, queue and task.
select job.state, job.queue, job.task, count(*)
from offpath_job as job
where
    (:ids is null or job.id in (select value from json_each(:ids)))
    and (:group_id is null or job.group_id = :group_id or job.id = :root)
    and (:states is null or job.state in (select value from json_each(:states)))
    /* part: listed_filter */
group by 1, 2, 3

-- name: backlog
-- Due work by queue and task, counted up to a limit, with the time the oldest became due.
--
-- The lanes of each kind are stepped to where an index has the next one, and a lane is looked at alone.
with recursive
/* part: lane_walk */
lanes (queue, task) as (
    select queue, task from ready_lane where queue is not null
    union select queue, task from scheduled_lane where queue is not null
),
due as (
    select
        lanes.queue,
        lanes.task,
        (
            select count(*) from (
                select 1 from offpath_job as job
                where job.state = 'ready' and job.queue = lanes.queue and job.task = lanes.task
                limit :limit
            )
        ) + (
            select count(*) from (
                select 1 from offpath_job as job
                where
                    job.state = 'scheduled' and job.queue = lanes.queue and job.task = lanes.task
                    and job.run_at <= :now
                limit :limit
            )
        ) as jobs,
        (
            select min(job.run_at) from offpath_job as job
            where job.state = 'ready' and job.queue = lanes.queue and job.task = lanes.task
        ) as ready_at,
        (
            select min(job.run_at) from offpath_job as job
            where
                job.state = 'scheduled' and job.queue = lanes.queue and job.task = lanes.task
                and job.run_at <= :now
        ) as scheduled_at
    from lanes
)
select
    due.queue, due.task, min(due.jobs, :limit),
    coalesce(min(due.ready_at, due.scheduled_at), due.ready_at, due.scheduled_at)
from due
where due.jobs > 0 and :limit > 0

-- name: groups
-- These groups: from their row, or from a lone job that is its own group. In one statement, since a
-- group may get its row, and its members, between two.
select id, open, failed, policy, closing, final, value from offpath_group
where id in (select value from json_each(:ids))
union all
select
    lone.id,
    lone.state not in ('succeeded', 'dead', 'cancelled'),
    lone.state in ('dead', 'cancelled'),
    'settle_all', 0, 0, lone.result
from offpath_job as lone
where
    lone.id in (select value from json_each(:ids))
    and lone.group_id = lone.id
    and not exists (select 1 from offpath_group as known where known.id = lone.id)

-- name: watched_for
-- The jobs that the gate of this one watches, or has watched.
select seen.job
from offpath_job as held
join offpath_gate_watch as seen on seen.gate = held.gate
where held.id = :id
order by seen.place

-- name: gates
-- These gates, with what they watch.
select
    id, state, need, counting, succeeded, failed,
    (
        select json_group_array(job) from (
            select seen.job from offpath_gate_watch as seen
            where seen.gate = offpath_job_gate.id
            order by seen.place
        )
    ),
    deadline
from offpath_job_gate
where id in (select value from json_each(:ids))
