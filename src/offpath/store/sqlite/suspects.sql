-- name: suspects
-- The ready suspects of one crash, with how many of it have not ended; those that were cleared come
-- behind the others. None for a worker that is gone or has suspects already.
with ready as materialized (
    select id, task, queue, suspected, seq, priority, run_at from offpath_job
    where
        suspected is not null and finished_at is null and +state = 'ready'
        and +task in (select value from json_each(:tasks))
        and (:queues = '[]' or +queue in (select value from json_each(:queues)))
        and +queue not in (select value from json_each(:full))
        and +id not in (select value from json_each(:declined))
        and not exists (
            select 1 from offpath_queue_pause as pause
            where pause.name = offpath_job.queue and (pause.until is null or pause.until > :now)
        )
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
),
first as materialized (
    select suspected from ready
    where
        exists (select 1 from offpath_worker where id = :worker and expires_at > :now)
        and not exists (
            select 1 from offpath_job as mine
            where
                mine.suspected is not null and mine.finished_at is null
                and +mine.state = 'running' and +mine.worker = :worker
        )
    order by suspected = '', priority desc, run_at, id
    limit 1
)
select
    ready.id, ready.task, ready.queue, ready.suspected, ready.seq,
    (
        select count(*) from offpath_job as other
        where other.suspected = ready.suspected and other.finished_at is null
    )
from ready
where ready.suspected = (select suspected from first)
order by ready.priority desc, ready.run_at, ready.id
limit :limit

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
