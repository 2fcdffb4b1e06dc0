-- name: hold_worker
-- Whether a worker's lease is running, and what is asked of it.
select expires_at > :now, asked from offpath_worker where id = :worker

-- name: register
-- Adds a worker or renews it.
insert into offpath_worker (id, info, started_at, seen_at, expires_at, presence, report)
values (:worker, :info, :now, :now, :now + :span, :presence is not null, :report)
on conflict (id) do update set
    info = excluded.info,
    seen_at = excluded.seen_at,
    expires_at = excluded.expires_at,
    presence = excluded.presence,
    report = case when gone_at is null then coalesce(excluded.report, report) else excluded.report end,
    started_at = case when gone_at is null then started_at else excluded.started_at end,
    gone_at = null

-- name: signals
-- Of the jobs a worker holds: which were asked to be cancelled (1) and which it lost (-1). (The
-- signs keep the planner on the ids.)
select wanted.value ->> 'id', coalesce(job.cancel_requested, -1)
from json_each(:held) as wanted
left join offpath_job as job
    on job.id = wanted.value ->> 'id'
    and +job.worker = :worker
    and +job.state = 'running'
    and +job.deliveries = wanted.value ->> 'deliveries'
where job.cancel_requested is not 0

-- name: alive
-- Whether a worker's lease runs, and what is asked of it.
select 1, asked from offpath_worker where id = :worker and expires_at > :now

-- name: deregister
-- What it holds is up for rescue at once; that it was there is remembered for a time. Its presence
-- ends with it: that of a worker that was found dead stays, and tells the two apart.
update offpath_worker set
    gone_at = :now,
    expires_at = min(expires_at, :now),
    presence = 0
where id = :worker and gone_at is null

-- name: workers
-- Every worker, oldest first.
select
    worker.info, worker.started_at, worker.seen_at, worker.expires_at,
    worker.expires_at <= :now,
    worker.presence,
    (
        select count(*) from offpath_job as job
        where job.state = 'running' and job.worker = worker.id
    ),
    worker.report, worker.gone_at
from offpath_worker as worker
order by worker.started_at, worker.id
limit 10000

-- name: vouch
-- A worker of this process lives, though it renews nothing by itself.
update offpath_worker set
    seen_at = :now,
    expires_at = :now + :span,
    report = coalesce(:report, report)
where id = :worker and gone_at is null
returning 1

-- name: claim
-- Takes a name that is free, or is held by the one who asks; no row in the answer when it is not.
insert into offpath_claim as held (key, holder, expires_at)
values (:key, :holder, :now + :span)
on conflict (key) do update set
    holder = excluded.holder,
    expires_at = case
        when :renew or held.expires_at <= :now then excluded.expires_at else held.expires_at
    end
where held.holder = excluded.holder or held.expires_at <= :now
returning 1

-- name: release_claim
-- Gives a name back; no row in the answer when it is not held by the one who asks.
delete from offpath_claim where key = :key and holder = :holder returning 1

-- name: ask_worker
-- Asks something of a live worker, unless it was asked already or has not answered many others.
update offpath_worker set
    asked = case
        when exists (
            select 1 from json_each(coalesce(asked, '[]')) as known
            where known.value ->> 'id' = :id
        ) or answer ->> 'id' = :id then asked
        else json_insert(coalesce(asked, '[]'), '$[#]', json(:ask))
    end
where id = :worker and gone_at is null
    and (
        json_array_length(coalesce(asked, '[]')) < :most
        or answer ->> 'id' = :id
        or exists (select 1 from json_each(asked) as known where known.value ->> 'id' = :id)
    )
returning 1

-- name: answer_worker
-- A worker has carried a request out.
update offpath_worker set
    asked = (
        select nullif(json_group_array(json(other.value)), '[]') from json_each(asked) as other
        where other.value ->> 'id' <> :id
    ),
    answer = :answer,
    answered_at = :now
where id = :worker
    and exists (select 1 from json_each(asked) as known where known.value ->> 'id' = :id)
returning 1

-- name: worker_desk
-- What is asked of a worker, and its last answer.
select asked, answer, answered_at from offpath_worker where id = :worker
