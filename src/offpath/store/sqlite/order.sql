-- name: turn_index
-- Ready jobs by whose they are; the row's own number, which ends each entry, is their age. It is made
-- when somebody first leases by age or in turns, and kept from then: where nobody does, no job pays.
create index if not exists offpath_job_turn
on offpath_job (queue, task, coalesce(fair_key, ''), priority desc)
where state = 'ready'

-- name: age_index
-- Ready jobs by age, which the row's own number at the end of each entry is; as turn_index.
create index if not exists offpath_job_age on offpath_job (queue, task) where state = 'ready'

-- name: lane_best
-- The first ready jobs of some lanes by priority, then run time, then id.
select
    job.queue, job.task, '', -job.priority, job.run_at, job.id, job.seq
from json_each(:lines) as lane
cross join offpath_job as job
where
    job.seq in (
        select best.seq from offpath_job as best
        where
            best.state = 'ready'
            and best.queue = lane.value ->> 0
            and best.task = lane.value ->> 1
            and best.suspected is null
            and best.id not in (select value from json_each(:declined))
            and (
                /* part: may_have_key */
            )
        order by best.priority desc, best.run_at, best.id
        limit :limit
    )

-- name: turn_keys
-- Whose ready jobs these lanes have: one probe for each fair key, for at most so many of a lane,
-- from "start" on.
with recursive line (queue, task, key, nth) as (
    select
        lane.value ->> 0, lane.value ->> 1,
        (
            select coalesce(job.fair_key, '') from offpath_job as job
            where
                job.state = 'ready' and job.queue = lane.value ->> 0
                and job.task = lane.value ->> 1
                and coalesce(job.fair_key, '') >= :start
            order by coalesce(job.fair_key, '') limit 1
        ),
        1
    from json_each(:lanes) as lane
    union all
    select
        line.queue, line.task,
        (
            select coalesce(job.fair_key, '') from offpath_job as job
            where
                job.state = 'ready' and job.queue = line.queue and job.task = line.task
                and coalesce(job.fair_key, '') > line.key
            order by coalesce(job.fair_key, '') limit 1
        ),
        line.nth + 1
    from line where line.key is not null and line.nth <> :most
)
select queue, task, key from line where key is not null

-- name: turn_first
-- The first ready jobs of some lanes by priority, then run time, then id, with their fair keys; in the
-- columns of turn_best.
select
    job.queue, job.task, coalesce(job.fair_key, ''), -job.priority, job.seq
from json_each(:lines) as lane
cross join offpath_job as job
where
    job.seq in (
        select best.seq from offpath_job as best
        where
            best.state = 'ready'
            and best.queue = lane.value ->> 0
            and best.task = lane.value ->> 1
            and best.suspected is null
            and best.id not in (select value from json_each(:declined))
            and (
                /* part: may_have_key */
            )
        order by best.priority desc, best.run_at, best.id
        limit :limit
    )

-- name: turn_best
-- The first ready jobs of some lanes and fair keys by priority, then age.
select
    line.value ->> 0, line.value ->> 1, line.value ->> 2, -job.priority, job.seq
from json_each(:lines) as line
cross join offpath_job as job
where
    job.seq in (
        select best.seq from offpath_job as best
        where
            best.state = 'ready' and best.queue = line.value ->> 0
            and best.task = line.value ->> 1
            and coalesce(best.fair_key, '') = line.value ->> 2
            and best.suspected is null
            and best.id not in (select value from json_each(:declined))
            and (
                /* part: may_have_key */
            )
        order by best.priority desc, best.seq
        limit :limit
    )

-- name: lane_oldest
-- The oldest ready jobs of some lanes.
select
    line.value ->> 0, line.value ->> 1, '', job.seq
from json_each(:lines) as line
cross join offpath_job as job
where
    job.seq in (
        select best.seq from offpath_job as best
        where
            best.state = 'ready' and best.queue = line.value ->> 0
            and best.task = line.value ->> 1
            and best.suspected is null
            and best.id not in (select value from json_each(:declined))
            and (
                /* part: may_have_key */
            )
        order by best.seq
        limit :limit
    )

-- name: running_by_fair_key
-- How many jobs of these fair keys run.
select
    wanted.value,
    (
        select count(*) from offpath_job as job
        where job.state = 'running' and job.fair_key = wanted.value
    )
from json_each(:keys) as wanted

-- name: share_of_nobody
-- How many jobs without a fair key run.
select
    (select count(*) from offpath_job where state = 'running')
    - (select count(*) from offpath_job where state = 'running' and fair_key is not null)

-- name: take_chosen
-- Ready jobs that were chosen by another order than that of an index; of those that claim one unique
-- key the first of the list.
with open_to as materialized (
    select
        job.seq, listed.key as place,
        case
            when
                job.unique_key is not null
                and job.unique_slot is null
                and instr(job.unique_states, 'running')
                and (job.unique_until is null or job.unique_until > :now)
                then job.unique_key
        end as claim
    from json_each(:jobs) as listed
    cross join offpath_job as job
    where job.seq = listed.value and +job.state = 'ready'
)
update or ignore offpath_job set
    /* part: handed_out */
where seq in (
    select candidate.seq from open_to as candidate
    where
        candidate.claim is null
        or not exists (
            select 1 from open_to as candidate_before
            where candidate_before.claim = candidate.claim and candidate_before.place < candidate.place
        )
)
returning
    id, task, queue, input, worker, deliveries, attempt, options, group_id, priority, run_at,
    enqueued_at, losses, parent, dependents, deadline, limit_key, headers, announce, seq

-- name: start_lease
-- Hands out one job that was inserted in this transaction.
update or ignore offpath_job set
    /* part: handed_out */
where
    id = :id and +worker is null and (+state = 'ready' or +state = 'scheduled')
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
returning
    id, task, queue, input, worker, deliveries, attempt, options, group_id, priority, run_at,
    enqueued_at, losses, parent, dependents, deadline, limit_key, headers, announce
