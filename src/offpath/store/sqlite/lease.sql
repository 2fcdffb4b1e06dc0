-- part: first_of_a_key
-- Of the chosen jobs that claim one unique key the first.
select candidate.seq from open_to as candidate
where
    candidate.claim is null
    or not exists (
        select 1 from open_to as candidate_before
        where
            candidate_before.claim = candidate.claim
            and (candidate_before.rank, candidate_before.run_at, candidate_before.id)
            < (candidate.rank, candidate.run_at, candidate.id)
    )

-- name: ready_lanes
-- Which of the queues and tasks that were asked for have ready jobs: one index probe each, however
-- many jobs there are, and lanes of others are jumped over. ([] as queues means all; then at most
-- "most" rows are looked at, from a lane on, and one without a queue ends each task.)
-- (Comparing (task, queue) as a pair would walk all jobs of a task: only its first part is used
-- to enter the index. Between a text and itself with char(1) there is no text.)
with recursive
asked (task) as materialized (select value from json_each(:tasks)),
line (task) as (
    select (
        select job.task from offpath_job as job
        where job.state = 'ready' and job.task >= max((select min(task) from asked), :from_task)
        order by job.task limit 1
    )
    union all
    select (
        select job.task from offpath_job as job
        where
            job.state = 'ready'
            and job.task >= case
                when line.task in (select task from asked) then line.task || char(1)
                else (select min(asked.task) from asked where asked.task > line.task)
            end
        order by job.task limit 1
    )
    from line where line.task < (select max(task) from asked)
),
lane (task, queue) as (
    select
        line.task,
        (
            select job.queue from offpath_job as job
            where
                job.state = 'ready' and job.task = line.task
                and job.queue >= case when line.task = :from_task then :from_queue else '' end
            order by job.queue limit 1
        )
    from line where :queues = '[]' and line.task in (select task from asked)
    union all
    select
        lane.task,
        (
            select job.queue from offpath_job as job
            where job.state = 'ready' and job.task = lane.task and job.queue > lane.queue
            order by job.queue limit 1
        )
    from lane where lane.queue is not null
    order by 1, 2
    limit :most
)
select task, queue from lane
union all
select line.task, named.value
from line cross join json_each(:queues) as named
where
    line.task in (select task from asked)
    and exists (
        select 1 from offpath_job as job
        where job.state = 'ready' and job.task = line.task and job.queue = named.value
    )

-- name: scheduled_lanes
-- Which of the queues and tasks that were asked for have jobs that are not due, with the first due
-- time of each; as ready_lanes, but all of them.
with recursive
asked (task) as materialized (select value from json_each(:tasks)),
line (task) as (
    select (
        select job.task from offpath_job as job
        where job.state = 'scheduled' and job.task >= (select min(task) from asked)
        order by job.task limit 1
    )
    union all
    select (
        select job.task from offpath_job as job
        where
            job.state = 'scheduled'
            and job.task >= case
                when line.task in (select task from asked) then line.task || char(1)
                else (select min(asked.task) from asked where asked.task > line.task)
            end
        order by job.task limit 1
    )
    from line where line.task < (select max(task) from asked)
),
lane (task, queue) as (
    select
        line.task,
        (
            select job.queue from offpath_job as job
            where job.state = 'scheduled' and job.task = line.task
            order by job.queue limit 1
        )
    from line where :queues = '[]' and line.task in (select task from asked)
    union all
    select
        lane.task,
        (
            select job.queue from offpath_job as job
            where job.state = 'scheduled' and job.task = lane.task and job.queue > lane.queue
            order by job.queue limit 1
        )
    from lane where lane.queue is not null
),
found (queue, task) as (
    select queue, task from lane where queue is not null
    union all
    select named.value, line.task
    from line cross join json_each(:queues) as named
    where line.task in (select task from asked)
)
select
    found.queue, found.task,
    (
        select job.run_at from offpath_job as job
        where job.state = 'scheduled' and job.queue = found.queue and job.task = found.task
        order by job.run_at limit 1
    ) as due
from found
where due is not null

-- name: promote
-- Makes the due jobs of some lanes ready, the longest due first, a bounded number. (Those with a
-- limit come to be held by the schema's rule.)
update offpath_job set state = 'ready'
where seq in (
    select job.seq
    from json_each(:lanes) as lane
    cross join offpath_job as job
    where
        job.state = 'scheduled'
        and job.queue = lane.value ->> 0
        and job.task = lane.value ->> 1
        and job.run_at <= :now
    order by job.run_at
    limit :limit
)
returning limit_key

-- name: lease_lane
-- The best jobs of one lane. A job that would hold its unique key while it runs waits, without hiding
-- others, as long as a job that has not ended has it; and of those that claim one key the first runs.
with open_to as materialized (
    select
        seq, -priority as rank, run_at, id,
        case
            when
                offpath_job.unique_key is not null
                and offpath_job.unique_slot is null
                and instr(offpath_job.unique_states, 'running')
                and (offpath_job.unique_until is null or offpath_job.unique_until > :now)
                then offpath_job.unique_key
        end as claim
    from offpath_job
    where
        state = 'ready' and queue = :queue and task = :task and suspected is null
        and (
            unique_key is null
            or unique_slot is not null
            or not instr(unique_states, 'running')
            or unique_until <= :now
            or not exists (
                select 1 from offpath_job as other
                where other.unique_slot = offpath_job.unique_key and other.finished_at is null
            )
        )
    order by priority desc, run_at, id
    limit :limit
)
update or ignore offpath_job set
    /* part: handed_out */
where seq in (
    /* part: first_of_a_key */
)
returning
    id, task, queue, input, worker, deliveries, attempt, options, group_id, priority, run_at,
    enqueued_at, losses, parent, dependents, deadline, limit_key, headers, announce

-- name: lease_lanes
-- The best jobs over several lanes, at most the room of each task over all its queues. Their unique
-- keys count as in lease_lane.
with open_to as materialized (
    select seq, -priority as rank, run_at, id, claim from (
        select
            job.seq, job.priority, job.run_at, job.id, lane.value ->> 2 as room,
            case
                when
                    job.unique_key is not null
                    and job.unique_slot is null
                    and instr(job.unique_states, 'running')
                    and (job.unique_until is null or job.unique_until > :now)
                    then job.unique_key
            end as claim,
            row_number() over (
                partition by job.task order by job.priority desc, job.run_at, job.id
            ) as place
        from json_each(:lanes) as lane
        cross join offpath_job as job
        where
            job.seq in (
                select best.seq from offpath_job as best
                where
                    best.state = 'ready'
                    and best.queue = lane.value ->> 0
                    and best.task = lane.value ->> 1
                    and best.suspected is null
                    and (
                        /* part: may_have_key */
                    )
                order by best.priority desc, best.run_at, best.id
                limit :limit
            )
    )
    where place <= room
    order by priority desc, run_at, id
    limit :limit
)
update or ignore offpath_job set
    /* part: handed_out */
where seq in (
    /* part: first_of_a_key */
)
returning
    id, task, queue, input, worker, deliveries, attempt, options, group_id, priority, run_at,
    enqueued_at, losses, parent, dependents, deadline, limit_key, headers, announce

-- name: paused_queues
-- Queues that hand out nothing now.
select name, until from offpath_queue_pause where until is null or until > :now

-- name: held
-- What a worker holds.
select
    id, task, queue, input, worker, deliveries, attempt, options, group_id, priority, run_at,
    enqueued_at, losses, parent, dependents, deadline, limit_key, headers
from offpath_job
where state = 'running' and worker = :worker
order by seq
limit 1000
