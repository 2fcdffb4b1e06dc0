-- name: get
-- Jobs with their failures.
select
    id, task, queue, state, priority, run_at, enqueued_at, attempt, deliveries, losses, redrives,
    group_id, input, options, fingerprint, parent, dependents, deadline, unique_key, tags, worker,
    cancel_requested, started_at, finished_at, expires_at, result, reason, progress,
    (
        select '[' || group_concat(failure, ',') || ']' from (
            select failure from offpath_failure as past
            where past.job = offpath_job.seq
            order by past.seq
        )
    ),
    case when gate_left = 0 then gate end, limit_key, fair_key,
    case when state = 'blocked' and reason = 'signal' then wait_target end,
    case when state = 'blocked' and reason = 'signal' then wait_event end
from offpath_job
where id in (select value from json_each(:ids))

-- name: states
select id, state from offpath_job where id in (select value from json_each(:ids))

-- name: find_newest
-- Ids of jobs that match, newest first.
select job.id from offpath_job as job
where
    (:after is null or job.id < :after)
    and (:states is null or job.state in (select value from json_each(:states)))
    and (:tasks is null or job.task in (select value from json_each(:tasks)))
    and (:queues is null or job.queue in (select value from json_each(:queues)))
    and (:reasons is null or job.reason in (select value from json_each(:reasons)))
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
order by job.id desc
limit :limit

-- name: find_oldest
-- Ids of jobs that match, oldest first.
select job.id from offpath_job as job
where
    (:after is null or job.id > :after)
    and (:states is null or job.state in (select value from json_each(:states)))
    and (:tasks is null or job.task in (select value from json_each(:tasks)))
    and (:queues is null or job.queue in (select value from json_each(:queues)))
    and (:reasons is null or job.reason in (select value from json_each(:reasons)))
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
order by job.id
limit :limit

-- name: find_some
-- As the two above, but only among given ids, the jobs of a group, or the dead ones: a table of
-- millions is not walked for a handful.
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
    and (:group_id is null or job.group_id = :group_id)
    and (:states is null or job.state in (select value from json_each(:states)))
    and (:tasks is null or job.task in (select value from json_each(:tasks)))
    and (:queues is null or job.queue in (select value from json_each(:queues)))
    and (:reasons is null or job.reason in (select value from json_each(:reasons)))
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
order by case when :newest then job.id end desc, job.id
limit :limit

-- name: count
-- How many jobs match, by state, queue and task.
select job.state, job.queue, job.task, count(*)
from offpath_job as job
where
    (:ids is null or job.id in (select value from json_each(:ids)))
    and (:group_id is null or job.group_id = :group_id)
    and (:states is null or job.state in (select value from json_each(:states)))
    and (:tasks is null or job.task in (select value from json_each(:tasks)))
    and (:queues is null or job.queue in (select value from json_each(:queues)))
    and (:reasons is null or job.reason in (select value from json_each(:reasons)))
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
group by 1, 2, 3

-- name: backlog_lane
-- The due jobs of one lane, counted up to a limit, and when the first of all became due.
select
    (
        select count(*) from (
            select 1 from offpath_job as job
            where job.state = 'ready' and job.queue = :queue and job.task = :task
            limit :limit
        )
    ),
    (
        select count(*) from (
            select 1 from offpath_job as job
            where
                job.state = 'scheduled' and job.queue = :queue and job.task = :task
                and job.run_at <= :now
            limit :limit
        )
    ),
    (
        select min(job.run_at) from offpath_job as job
        where job.state = 'ready' and job.queue = :queue and job.task = :task
    ),
    (
        select min(job.run_at) from offpath_job as job
        where
            job.state = 'scheduled' and job.queue = :queue and job.task = :task
            and job.run_at <= :now
    )
