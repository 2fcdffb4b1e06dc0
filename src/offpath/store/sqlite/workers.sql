-- name: worker_put
-- A worker starts its lease, or renews it.
insert into offpath_worker (id, info, started_at, seen_at, expires_at, presence, report)
values (:id, :info, :now, :now, :expires_at, :presence, :report)
on conflict (id) do update set
    info = excluded.info,
    seen_at = excluded.seen_at,
    expires_at = excluded.expires_at,
    presence = excluded.presence,
    report = case when gone_at is null then coalesce(excluded.report, report) else excluded.report end,
    started_at = case when gone_at is null then started_at else excluded.started_at end,
    gone_at = null

-- name: worker_alive
-- Whether a worker's lease runs.
select 1 from offpath_worker where id = :id and expires_at > :now

-- name: worker_leave
-- What it holds is up for rescue at once; that it was there is remembered for a time.
update offpath_worker set
    gone_at = coalesce(gone_at, :now),
    expires_at = min(expires_at, :now)
where id = :id

-- name: worker_list
-- Every worker with the number of jobs it holds.
select
    worker.info, worker.started_at, worker.seen_at, worker.expires_at, worker.presence,
    (
        select count(*) from offpath_job as job
        where job.state = 'running' and job.worker = worker.id
    ),
    worker.report, worker.gone_at
from offpath_worker as worker
order by worker.started_at, worker.id
limit :limit

-- name: worker_present
-- Workers with a presence lock whose lease still runs.
select id from offpath_worker where presence = 1 and expires_at > :now and gone_at is null

-- name: worker_silent
-- Late workers with a presence lock that have not been silent for so many leases.
select id, info from offpath_worker
where
    presence = 1
    and gone_at is null
    and expires_at <= :now
    and seen_at + :leases * (expires_at - seen_at) > :now

-- name: worker_vouch
-- A worker of this process lives, though it renews nothing by itself.
update offpath_worker set
    seen_at = :now,
    expires_at = :expires_at,
    report = coalesce(:report, report)
where id = :id and gone_at is null
returning id

-- name: worker_ended
-- Which of these stopped, or were seen to be dead.
select id from offpath_worker
where id in (select value from json_each(:ids)) and gone_at is not null

-- name: worker_ids
-- Those that are not gone.
select id from offpath_worker where gone_at is null

-- name: worker_expire
-- Ends the lease of workers that were seen to be dead.
update offpath_worker set expires_at = :now, gone_at = :now
where id in (select value from json_each(:ids)) and expires_at > :now
returning id

-- name: held
-- What is known of the jobs that a worker believes to hold.
select id, deliveries, cancel_requested from offpath_job
where id in (select value from json_each(:ids)) and +worker = :worker and +state = 'running'

-- name: worker_jobs
-- What a worker holds.
select
    id, task, queue, input, worker, deliveries, attempt, options, group_id, priority, run_at,
    enqueued_at, losses, parent, dependents, deadline, limit_key
from offpath_job
where state = 'running' and worker = :worker
order by seq
limit 1000
