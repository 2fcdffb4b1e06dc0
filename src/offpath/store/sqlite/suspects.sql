-- name: suspects_held
-- Whether a worker has suspects already.
select 1 from offpath_job
where suspected is not null and finished_at is null and +state = 'running' and +worker = :worker
limit 1

-- name: suspects
-- The first ready suspects. Those that were cleared come behind the others.
select id, task, queue, suspected, seq from offpath_job
where
    suspected is not null and finished_at is null and +state = 'ready'
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
order by suspected = '', priority desc, run_at, id
limit :limit

-- name: suspects_left
-- How many suspects of a crash have not ended.
select count(*) from offpath_job where suspected = :crash and finished_at is null

-- name: reserve
-- Suspects that were just handed out have not begun.
update offpath_job set started_at = null, alone = :alone
where
    id in (select value from json_each(:ids)) and +state = 'running' and +worker = :worker

-- name: beside_suspect
-- A suspect whose worker begins another job does not run alone any more.
update offpath_job set alone = 0
where
    suspected is not null and finished_at is null and +state = 'running' and +worker = :worker
    and alone

-- name: begin_apart
-- Reserved suspects run from now on.
update offpath_job set started_at = :now
from json_each(:jobs) as mine
where
    offpath_job.id = mine.value ->> 'id'
    and +offpath_job.worker = mine.value ->> 'worker'
    and offpath_job.deliveries = mine.value ->> 'deliveries'
    and +offpath_job.state = 'running'
returning id
