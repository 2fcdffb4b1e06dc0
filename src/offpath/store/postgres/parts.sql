-- part: lease_request
-- The tasks and queues that a lease asks for, with the first task and the last queue of them.
request as materialized (
    select
        :tasks::text::jsonb as tasks, :queues::text::jsonb as queues,
        :queues::text = '[]' as everywhere,
        (
            select min(t.task collate "C") from jsonb_object_keys(:tasks::text::jsonb) as t (task)
        ) as first_task,
        (
            select max(q.queue collate "C")
            from jsonb_array_elements_text(:queues::text::jsonb) as q (queue)
        ) as last_queue
),

-- part: next_lane
-- The lane behind the last one that was found.
-- Behind a lane that was asked for comes the next one; from another one a jump leads to where the
-- next can be. Between a text and itself with chr(1) there is no text.
select next.task, next.queue
from lanes l
cross join request r
cross join lateral (
    select
        not r.tasks ? l.task
        or (not r.everywhere and l.queue collate "C" >= r.last_queue) as task_over
) as here
cross join lateral (
    select j.task, j.queue
    from offpath.job j
    where j.state = 'ready' and (j.task, j.queue) >= (
        case
            when here.task_over then (
                select min(t.task collate "C")
                from jsonb_object_keys(r.tasks) as t (task)
                where t.task collate "C" > l.task
            )
            else l.task
        end,
        case
            when here.task_over then ''
            when r.everywhere or r.queues ? l.queue then l.queue || chr(1)
            else (
                select min(q.queue collate "C")
                from jsonb_array_elements_text(r.queues) as q (queue)
                where q.queue collate "C" > l.queue
            )
        end
    )
    order by j.task, j.queue
    limit 1
) as next

-- part: may_have_key
-- A ready job whose unique key nobody else has, or that does not need it to run.
j.unique_key is null
or offpath.run_key(
    j.unique_key, j.unique_held, j.unique_states, j.unique_until,
    (select clock.now from clock)
) is not null

-- part: claim
-- The key that a ready job would hold while it runs, if it does not hold it yet.
case
    when j.unique_key is not null and not j.unique_held
        and offpath.run_key(
            j.unique_key, false, j.unique_states, j.unique_until,
            (select clock.now from clock)
        )
        then j.unique_key
end

-- part: handed_out
-- A job that a worker is given. Its key is asked for again, under the lock.
set state = 'running',
    worker = :worker::text,
    deliveries = least(j.deliveries, 4611686018427387903) + 1,
    started_at = (select clock.now from clock),
    reason = null,
    unique_held = case
        when j.unique_key is null then false
        else coalesce(
            offpath.run_key(
                j.unique_key, j.unique_held, j.unique_states, j.unique_until,
                (select clock.now from clock)
            ),
            false
        )
    end

-- part: handed_columns
-- What an update says of the jobs that it has handed out.
j.id, j.task, j.queue, j.input, j.deliveries, j.attempt, j.options, j.group_id, j.priority,
j.run_at, j.enqueued_at, j.losses, j.parent, j.dependents, j.deadline, j.announce,
j.limit_key, j.headers

-- part: handed_row
-- A job that is handed out, in the columns of a lease behind what the statement says of all.
l.id::text, l.task, l.queue, l.input, l.deliveries, l.attempt, l.options, l.group_id, l.priority,
offpath.micros(l.run_at),
offpath.micros(l.enqueued_at),
l.losses, l.parent, l.dependents::text,
offpath.micros(l.deadline), l.announce, l.limit_key, l.headers

-- part: next_due
-- When the next scheduled job is due of those that were asked for: of the next hundred, and when none of
-- them is, when the last of these is due.
coalesce(
    (
        select s.run_at
        from (
            select s.run_at, s.task, s.queue
            from offpath.job s
            where s.state = 'scheduled' and s.run_at > clock.now
            order by s.run_at
            limit 100
        ) as s
        where (:tasks::text::jsonb ->> s.task)::int > 0
            and (
                :queues::text::jsonb = '[]'
                or s.queue = any (
                    array(select jsonb_array_elements_text(:queues::text::jsonb))
                )
            )
        order by s.run_at
        limit 1
    ),
    (
        select s.run_at
        from offpath.job s
        where s.state = 'scheduled' and s.run_at > clock.now
        order by s.run_at
        offset 99
        limit 1
    )
)

-- part: job_holders
-- The workers that hold running jobs, found by stepping over the index of these: a page full of
-- healthy workers' jobs cannot hide a dead one's.
(
    select j.worker
    from offpath.job j
    where j.state = 'running'
    order by j.worker
    limit 1
)
union all
select next.worker
from holders h
cross join lateral (
    select j.worker
    from offpath.job j
    where j.state = 'running' and j.worker > h.worker
    order by j.worker
    limit 1
) as next

-- part: presence_locks
-- The advisory locks by which workers show that they are there.
locks as materialized (
    select (l.classid::bigint << 32) | l.objid::bigint as key
    from pg_locks l
    where l.locktype = 'advisory'
        and l.objsubid = 1
        and l.granted
        and l.database = (select d.oid from pg_database d where d.datname = current_database())
),
