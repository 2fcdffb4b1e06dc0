-- part: find_filter
-- What a list of jobs may be asked for. Whatever is not asked for is null.
where (:ids::text is null or j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid)))
    and (:states::text[] is null or j.state = any (:states::text[]))
    and (:tasks::text[] is null or j.task = any (:tasks::text[]))
    and (:queues::text[] is null or j.queue = any (:queues::text[]))
    and (:reasons::text[] is null or j.reason = any (:reasons::text[]))
    and (:faults::text[] is null or (j.state = 'dead' and j.error_key = any (:faults::text[])))
    and (:tags::text is null or j.tags @> :tags::text::jsonb)
    and (:group_id::text is null or j.group_id = :group_id::text or j.id = :root::text::uuid)
    and (
        :parent::text is null
        or (j.group_id = :parent::text and j.parent = :parent::text)
        or (j.parent = :parent::text and j.group_id is distinct from j.parent)
    )
    and (:enqueued_after::text is null or j.enqueued_at >= :enqueued_after::text::timestamptz)
    and (:enqueued_before::text is null or j.enqueued_at < :enqueued_before::text::timestamptz)
    and (:finished_after::text is null or j.finished_at >= :finished_after::text::timestamptz)
    and (:finished_before::text is null or j.finished_at < :finished_before::text::timestamptz)
    and (:redrives_below::bigint is null or j.redrives < :redrives_below::bigint)
    and (
        :error_types::text[] is null
        or (
            select f.type from offpath.failure f
            where f.job = j.id
            order by f.delivery desc
            limit 1
        ) = any (:error_types::text[])
    )

-- part: failure_documents
-- The failures of a job, as a list of documents.
select json_agg(
    json_build_object(
        'kind', f.kind, 'type', f.type, 'message', f.message,
        'traceback', f.traceback, 'attempt', f.attempt, 'at', f.at,
        'module', f.module, 'started_at', f.started_at, 'worker', f.worker
    )
    order by f.delivery
)::text

-- part: job_columns
-- The columns of a job as it is looked at, up to its failures.
j.id::text, j.task, j.queue, j.state, j.priority, offpath.micros(j.run_at),
offpath.micros(j.enqueued_at), j.attempt, j.deliveries, j.losses, j.redrives,
coalesce(j.group_id, j.id::text), j.input, j.options, j.fingerprint, j.parent,
j.dependents::text, offpath.micros(j.deadline), j.unique_key, j.tags::text, j.worker,
j.cancel_requested::int, offpath.micros(j.started_at), offpath.micros(j.finished_at),
offpath.micros(j.expires_at), j.result, j.reason, j.progress,

-- name: get
-- Jobs by id with all their failures.
select
    /* part: job_columns */
    (
        /* part: failure_documents */
        from (
            select o.*
            from offpath.failure o
            where o.job = j.id
            order by o.delivery desc
            limit 50
        ) as f
    ),
    j.gate::text, j.limit_key, j.fair_key,
    case when j.state = 'blocked' and j.reason = 'signal' then j.wait_target end,
    case when j.state = 'blocked' and j.reason = 'signal' then j.wait_event end,
    j.headers
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: states
-- The states of jobs by id.
select j.id::text, j.state
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: find_newest
-- Jobs that match, with their last failure. Newest first.
select
    /* part: job_columns */
    (
        /* part: failure_documents */
        from (
            select o.*
            from offpath.failure o
            where o.job = j.id
            order by o.delivery desc
            limit 1
        ) as f
    ),
    j.gate::text, j.limit_key, j.fair_key,
    case when j.state = 'blocked' and j.reason = 'signal' then j.wait_target end,
    case when j.state = 'blocked' and j.reason = 'signal' then j.wait_event end,
    j.headers
from offpath.job j
/* part: find_filter */
    and (:after::text is null or j.id < :after::text::uuid)
order by
    -- members of a group are few: without this the planner walks all jobs by id to find them
    case when :group_id::text is not null then j.id::text collate "C" end desc,
    j.id desc
limit :limit::int

-- name: find_oldest
-- Jobs that match, with their last failure. Oldest first.
select
    /* part: job_columns */
    (
        /* part: failure_documents */
        from (
            select o.*
            from offpath.failure o
            where o.job = j.id
            order by o.delivery desc
            limit 1
        ) as f
    ),
    j.gate::text, j.limit_key, j.fair_key,
    case when j.state = 'blocked' and j.reason = 'signal' then j.wait_target end,
    case when j.state = 'blocked' and j.reason = 'signal' then j.wait_event end,
    j.headers
from offpath.job j
/* part: find_filter */
    and (:after::text is null or j.id > :after::text::uuid)
order by
    -- members of a group are few: without this the planner walks all jobs by id to find them
    case when :group_id::text is not null then j.id::text collate "C" end,
    j.id
limit :limit::int

-- name: count
-- How many jobs match, by state, queue and task.
select
    case when j.state in ('scheduled', 'ready') then 'queued' else j.state end as public,
    j.queue, j.task, count(*)
from offpath.job j
where (:ids::text is null or j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid)))
        and (:states::text[] is null or j.state = any (:states::text[]))
        and (:tasks::text[] is null or j.task = any (:tasks::text[]))
        and (:queues::text[] is null or j.queue = any (:queues::text[]))
        and (:reasons::text[] is null or j.reason = any (:reasons::text[]))
        and (:faults::text[] is null or (j.state = 'dead' and j.error_key = any (:faults::text[])))
        and (:tags::text is null or j.tags @> :tags::text::jsonb)
        and (:group_id::text is null or j.group_id = :group_id::text or j.id = :root::text::uuid)
        and (
            :parent::text is null
            or (j.group_id = :parent::text and j.parent = :parent::text)
            or (j.parent = :parent::text and j.group_id is distinct from j.parent)
        )
        and (:enqueued_after::text is null or j.enqueued_at >= :enqueued_after::text::timestamptz)
        and (:enqueued_before::text is null or j.enqueued_at < :enqueued_before::text::timestamptz)
        and (:finished_after::text is null or j.finished_at >= :finished_after::text::timestamptz)
        and (:finished_before::text is null or j.finished_at < :finished_before::text::timestamptz)
        and (:redrives_below::bigint is null or j.redrives < :redrives_below::bigint)
        and (
            :error_types::text[] is null
            or (
                select f.type from offpath.failure f
                where f.job = j.id
                order by f.delivery desc
                limit 1
            ) = any (:error_types::text[])
        )
group by public, j.queue, j.task

-- name: backlog
-- Due work by queue and task, counted up to a limit, with the time the oldest became due.
--
-- Every priority of a lane is stepped to, for the head of each is its oldest. Scheduled jobs that are
-- due are read in one go, so a low limit of the counts must not hide a lane.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
lanes (queue, task) as (
    (
        select j.queue, j.task
        from offpath.job j
        where j.state = 'ready'
        order by j.queue, j.task
        limit 1
    )
    union all
    select next.queue, next.task
    from lanes l
    cross join lateral (
        select j.queue, j.task
        from offpath.job j
        where j.state = 'ready' and (j.queue, j.task) > (l.queue, l.task)
        order by j.queue, j.task
        limit 1
    ) as next
),
due as (
    select l.queue, l.task, counted.ready, oldest.run_at
    from lanes l
    cross join lateral (
        select count(*) as ready
        from (
            select from offpath.job j
            where j.state = 'ready' and j.queue = l.queue and j.task = l.task
            limit :limit::int
        ) as few
    ) as counted
    cross join lateral (
        with recursive heads (priority, run_at) as (
            (
                select j.priority, j.run_at
                from offpath.job j
                where j.state = 'ready' and j.queue = l.queue and j.task = l.task
                order by j.priority desc, j.run_at
                limit 1
            )
            union all
            select next.priority, next.run_at
            from heads h
            cross join lateral (
                select j.priority, j.run_at
                from offpath.job j
                where j.state = 'ready' and j.queue = l.queue and j.task = l.task
                    and j.priority < h.priority
                order by j.priority desc, j.run_at
                limit 1
            ) as next
        )
        select min(h.run_at) as run_at from heads h
    ) as oldest
    union all
    select s.queue, s.task, count(*), min(s.run_at)
    from (
        select j.queue, j.task, j.run_at
        from offpath.job j
        where j.state = 'scheduled' and j.run_at <= (select clock.now from clock)
        order by j.run_at
        limit case when :limit::int > 0 then greatest(:limit::int, 1000) else 0 end
    ) as s
    group by s.queue, s.task
)
select
    d.queue, d.task, least(sum(d.ready), :limit::int)::bigint,
    offpath.micros(min(d.run_at))
from due d
where d.run_at is not null
group by d.queue, d.task

-- name: groups
-- These groups: from their row, from a lone job, or counted where an older worker removed the row.
select
    i.id,
    coalesce(g.open, counts.open), coalesce(g.failed, counts.failed),
    coalesce(g.policy, 'settle_all'), coalesce(g.closing, false)::int,
    coalesce(g.final, false)::int,
    case when g.id is not null then g.value else r.result end
from (
    select distinct given.id, case
        when given.id ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then given.id::uuid
    end as root
    from (select jsonb_array_elements_text(:ids::text::jsonb) as id) as given
) as i
left join offpath.job_group g on g.id = i.id
left join offpath.job r on r.id = i.root and r.group_id is null
left join lateral (
    select
        count(*) filter (where m.finished_at is null) as open,
        count(*) filter (where m.state in ('dead', 'cancelled')) as failed,
        count(*) as members
    from (
        select o.finished_at, o.state from offpath.job o where o.id = r.id
        union all
        select o.finished_at, o.state from offpath.job o where o.group_id = i.id
    ) as m
) as counts on g.id is null
where g.id is not null or counts.members > 0

-- name: watched_for
-- The jobs that the gate of this one watches, or has watched.
select w.job::text
from offpath.job j
join offpath.gate_watch w on w.gate = j.gated_by
where j.id = :id::text::uuid
order by w.n

-- name: gates
-- These gates, with what they watch.
select
    g.id::text, g.state, g.need, g.counting, g.succeeded, g.failed,
    (
        select coalesce(jsonb_agg(w.job order by w.n), '[]')
        from offpath.gate_watch w
        where w.gate = g.id
    )::text,
    offpath.micros(g.deadline)
from offpath.job_gate g
where g.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
