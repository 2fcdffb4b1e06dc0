-- part: job_filter
-- What a page of jobs may be asked for. Whatever is not asked for is null.
(:states::text[] is null or l.state = any (:states::text[]))
and (:tasks::text[] is null or l.task = any (:tasks::text[]))
and (:queues::text[] is null or l.queue = any (:queues::text[]))
and (:reasons::text[] is null or l.reason = any (:reasons::text[]))
and (:faults::text[] is null or (l.state = 'dead' and l.error_key = any (:faults::text[])))
and (:tags::text is null or l.tags @> :tags::text::jsonb)
and (:enqueued_after::text is null or l.enqueued_at >= :enqueued_after::text::timestamptz)
and (:enqueued_before::text is null or l.enqueued_at < :enqueued_before::text::timestamptz)
and (:finished_after::text is null or l.finished_at >= :finished_after::text::timestamptz)
and (:finished_before::text is null or l.finished_at < :finished_before::text::timestamptz)
and (:redrives_below::bigint is null or l.redrives < :redrives_below::bigint)
and (
    :error_types::text[] is null
    or (
        select f.type from offpath.failure f
        where f.job = l.id
        order by f.delivery desc
        limit 1
    ) = any (:error_types::text[])
)
and (
    :text::text is null
    or (:arguments::int = 1 and strpos(l.input, :text::text) > 0)
    or strpos(
        (
            select f.message from offpath.failure f
            where f.job = l.id
            order by f.delivery desc
            limit 1
        ),
        :text::text
    ) > 0
)

-- name: browse_newest
-- Ids of jobs that match among the next rows, newest first.
--
-- The inner statement bounds what is looked at, and streams: nothing behind a full page is read.
select l.id::text
from (
    select j.*
    from offpath.job j
    where (:source::text[] is null or j.state = any (:source::text[]))
        and (
            :ids::text is null
            or j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        )
        and (:group_id::text is null or j.group_id = :group_id::text or j.id = :root::text::uuid)
        and (
            :parent::text is null
            or (j.group_id = :parent::text and j.parent = :parent::text)
            or (j.parent = :parent::text and j.group_id is distinct from j.parent)
        )
        and (:after::text is null or j.id < :after::text::uuid)
    order by j.id desc
    limit :most::int
) as l
where
    /* part: job_filter */
order by l.id desc
limit :limit::int

-- name: reach_newest
-- The last row that such a page looked at; none when it looked at all that there is.
--
-- The index alone says which one it is; of that row alone the time is read.
select r.id::text, offpath.micros(r.enqueued_at)
from offpath.job r
where r.id = (
    select j.id
    from offpath.job j
    where (:source::text[] is null or j.state = any (:source::text[]))
        and (
            :ids::text is null
            or j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        )
        and (:group_id::text is null or j.group_id = :group_id::text or j.id = :root::text::uuid)
        and (
            :parent::text is null
            or (j.group_id = :parent::text and j.parent = :parent::text)
            or (j.parent = :parent::text and j.group_id is distinct from j.parent)
        )
        and (:after::text is null or j.id < :after::text::uuid)
    order by j.id desc
    limit 1 offset :most::int - 1
)

-- name: browse_oldest
-- Ids of jobs that match among the next rows, oldest first.
--
-- The inner statement bounds what is looked at, and streams: nothing behind a full page is read.
select l.id::text
from (
    select j.*
    from offpath.job j
    where (:source::text[] is null or j.state = any (:source::text[]))
        and (
            :ids::text is null
            or j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        )
        and (:group_id::text is null or j.group_id = :group_id::text or j.id = :root::text::uuid)
        and (
            :parent::text is null
            or (j.group_id = :parent::text and j.parent = :parent::text)
            or (j.parent = :parent::text and j.group_id is distinct from j.parent)
        )
        and (:after::text is null or j.id > :after::text::uuid)
    order by j.id
    limit :most::int
) as l
where
    /* part: job_filter */
order by l.id
limit :limit::int

-- name: reach_oldest
-- The last row that such a page looked at; none when it looked at all that there is.
--
-- The index alone says which one it is; of that row alone the time is read.
select r.id::text, offpath.micros(r.enqueued_at)
from offpath.job r
where r.id = (
    select j.id
    from offpath.job j
    where (:source::text[] is null or j.state = any (:source::text[]))
        and (
            :ids::text is null
            or j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        )
        and (:group_id::text is null or j.group_id = :group_id::text or j.id = :root::text::uuid)
        and (
            :parent::text is null
            or (j.group_id = :parent::text and j.parent = :parent::text)
            or (j.parent = :parent::text and j.group_id is distinct from j.parent)
        )
        and (:after::text is null or j.id > :after::text::uuid)
    order by j.id
    limit 1 offset :most::int - 1
)

-- name: briefs
-- What lists show of these jobs.
select
    j.id::text, j.task, j.queue, j.state, j.priority, offpath.micros(j.run_at),
    offpath.micros(j.enqueued_at), j.attempt, j.deliveries, coalesce(j.group_id, j.id::text),
    j.parent, j.tags::text, j.worker, j.cancel_requested::int, offpath.micros(j.started_at),
    offpath.micros(j.finished_at), j.reason, j.limit_key, f.type, left(f.message, 300),
    offpath.micros(j.redriven_at), j.options, f.attempt, f.started_at::text, f.at::text
from offpath.job j
left join lateral (
    select o.type, o.message, o.attempt, o.started_at, o.at
    from offpath.failure o
    where o.job = j.id
    order by o.delivery desc
    limit 1
) as f on true
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: members
-- The first members of a group by id, its root among them.
select m.id::text, m.task, m.state, m.parent, m.gate
from (
    (
        select j.id, j.task, j.state, j.parent, j.gate::text as gate
        from offpath.job j
        where j.id = :root::text::uuid
    )
    union
    (
        select j.id, j.task, j.state, j.parent, j.gate::text
        from offpath.job j
        where j.group_id = :group_id::text
        order by j.id
        limit :limit::int
    )
) as m
order by m.id
limit :limit::int

-- name: member_gates
-- These gates, without what they watch.
select
    g.id::text, g.state, g.need, g.counting, g.total, g.succeeded, g.failed,
    offpath.micros(g.deadline), 0, null
from offpath.job_gate g
where g.id = any (array(select jsonb_array_elements_text(:gates::text::jsonb)::uuid))
order by g.id

-- name: watched_members
-- The members among those that these gates watch, in their order.
select w.gate::text, w.job::text
from offpath.gate_watch w
where w.gate = any (array(select jsonb_array_elements_text(:gates::text::jsonb)::uuid))
    and w.job = any (array(select jsonb_array_elements_text(:members::text::jsonb)::uuid))
order by w.gate, w.n

-- name: browse_groups
-- Groups that have a row, newest first.
select
    l.id, l.open, l.failed, l.policy, l.closing::int, l.final::int, r.task,
    offpath.micros(r.enqueued_at)
from (
    select g.id, g.open, g.failed, g.policy, g.closing, g.final
    from offpath.job_group g
    where :after::text is null or g.id < :after::text
    order by g.id desc
    limit :most::int
) as l
left join offpath.job r on r.id = case
    when l.id ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then l.id::uuid
end
where :unended::int is null or (l.open > 0)::int = :unended::int
order by l.id desc
limit :limit::int

-- name: open_gates
-- Gates that wait, by id, each with how many jobs it holds and one of them.
select
    l.id::text, l.state, l.need, l.counting, l.total, l.succeeded, l.failed,
    offpath.micros(l.deadline), h.jobs, h.sample
from (
    select g.*
    from offpath.job_gate g
    where g.state = 'open' and (:after::text is null or g.id > :after::text::uuid)
    order by g.id
    limit :limit::int
) as l
cross join lateral (
    select count(*) as jobs, min(few.id) as sample
    from (
        select j.id::text from offpath.job j where j.gated_by = l.id limit 1000
    ) as few
) as h
order by l.id

-- name: pending_signals
-- Signals that nobody has taken, by id.
select
    s.id::text, s.target, s.event, s.payload, offpath.micros(s.expires_at),
    offpath.micros(s.sent_at)
from offpath.signal s
where s.taken_at is null
    and s.expires_at > coalesce(:now::text::timestamptz, clock_timestamp())
    and (:after::text is null or s.id > :after::text::uuid)
order by s.id
limit :limit::int

-- name: drop_signals
-- Nobody gets these any more; they stay known until their time is over.
update offpath.signal s
set taken_at = coalesce(:now::text::timestamptz, clock_timestamp()), missed = false
where s.id = any (array(
    select o.id
    from offpath.signal o
    where o.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and o.taken_at is null
    order by o.id
    for update
))
    and s.taken_at is null
returning s.id::text

-- name: next_due
-- The ready jobs of a queue that are next: the first of each lane, and of these the best.
with recursive lanes (task) as (
    (
        select j.task from offpath.job j
        where j.state = 'ready' and j.queue = :queue::text
        order by j.task
        limit 1
    )
    union all
    select (
        select j.task from offpath.job j
        where j.state = 'ready' and j.queue = :queue::text and j.task > l.task
        order by j.task
        limit 1
    )
    from lanes l
    where l.task is not null
)
select j.id::text
from lanes l
cross join lateral (
    select o.id, o.priority, o.run_at
    from offpath.job o
    where o.state = 'ready' and o.queue = :queue::text and o.task = l.task
    order by o.priority desc, o.run_at, o.id
    limit :limit::int
) as j
where l.task is not null
order by j.priority desc, j.run_at, j.id
limit :limit::int

-- name: newest_events
-- Events of the log, newest first.
select
    l.position, l.id, l.domain, l.type, l.stream, l.payload,
    offpath.micros(l.at), l.key, 0, l.headers
from offpath.log l
where (:domain::text is null or l.domain = :domain::text)
    and (:before::bigint is null or l.position < :before::bigint)
order by l.position desc
limit :limit::int

-- name: job_ids
-- Jobs between two ids.
select j.id::text
from offpath.job j
where j.id between :first::text::uuid and :last::text::uuid
order by j.id
limit :limit::int

-- name: gate_ids
-- Gates between two ids.
select g.id::text
from offpath.job_gate g
where g.id between :first::text::uuid and :last::text::uuid
order by g.id
limit :limit::int

-- name: message_ids
-- Messages between two ids.
select t.id
from offpath.message t
where t.id between :first::text and :last::text
order by t.id
limit :limit::int

-- name: event_ids
-- Events between two ids.
select t.id
from offpath.log t
where t.id between :first::text and :last::text
order by t.id
limit :limit::int

-- name: letter_ids
-- Letters between two ids.
select t.id
from offpath.letter t
where t.id between :first::text and :last::text
order by t.id
limit :limit::int

-- name: action_ids
-- Actions between two ids.
select t.id
from offpath.action t
where t.id between :first::text and :last::text
order by t.id
limit :limit::int

-- name: worker_ids
-- Workers between two ids.
select t.id
from offpath.worker t
where t.id collate "C" between :first::text and :last::text
order by t.id collate "C"
limit :limit::int

-- part: tallied_faults
-- What was looked at, by fault.
parts as materialized (
    select
        l.task, l.reason, l.error_key, l.queue, count(*) as jobs,
        min(l.finished_at) as first_at, max(l.finished_at) as last_at,
        max(l.id::text collate "C") as sample
    from looked l
    group by l.task, l.reason, l.error_key, l.queue
)
select
    p.task, p.reason, p.error_key, sum(p.jobs)::bigint, offpath.micros(min(p.first_at)),
    offpath.micros(max(p.last_at)), jsonb_agg(p.queue)::text, max(p.sample),
    (select sum(every.jobs)::bigint from parts every)
from parts p
where :task::text is null or p.task = :task::text
group by p.task, p.reason, p.error_key
order by
    sum(p.jobs) desc, p.task collate "C", p.reason collate "C" nulls first,
    p.error_key collate "C" nulls first
limit :limit::int

-- name: faults
-- The newest dead jobs by their fault, the most frequent first.
--
-- They are counted by queue first, where rows are put into a few groups without an order, and these
-- into faults.
with looked as (
    select j.task, j.reason, j.error_key, j.queue, j.finished_at, j.id
    from offpath.job j
    where j.state = 'dead'
    order by j.id desc
    limit :most::int
),
/* part: tallied_faults */

-- name: faults_since
-- The same of the jobs that died since a time, the latest deaths first.
with looked as (
    select j.task, j.reason, j.error_key, j.queue, j.finished_at, j.id
    from offpath.job j
    where j.state = 'dead' and j.finished_at >= :since::text::timestamptz
    order by j.finished_at desc, j.id desc
    limit :most::int
),
/* part: tallied_faults */

-- name: dead_tally
-- The dead jobs up to a limit, and the oldest death; an index has each.
select
    (
        select count(*)
        from (
            select from offpath.job j where j.state = 'dead' order by j.id desc limit :most::int
        ) as few
    ),
    (
        select offpath.micros(j.finished_at)
        from offpath.job j
        where j.state = 'dead'
        order by j.finished_at
        limit 1
    )

-- part: looked_messages
-- What a page of messages may be asked for. Whatever is not asked for is null.
(:box::text is null or l.box = :box::text)
and (
    :streams::text is null
    or l.stream = any (array(select jsonb_array_elements_text(:streams::text::jsonb)))
)
and (
    :topics::text is null
    or l.topic = any (array(select jsonb_array_elements_text(:topics::text::jsonb)))
)
and (
    :states::text is null
    or l.state = any (array(select jsonb_array_elements_text(:states::text::jsonb)))
)
and (
    :keys::text is null
    or l.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
)
and (
    :reasons::text is null
    or l.reason = any (array(select jsonb_array_elements_text(:reasons::text::jsonb)))
)
and (
    :not_reasons::text is null
    or l.reason is null
    or l.reason <> all (array(select jsonb_array_elements_text(:not_reasons::text::jsonb)))
)
and (:created_after::text is null or l.created_at >= :created_after::text::timestamptz)
and (:created_before::text is null or l.created_at < :created_before::text::timestamptz)

-- part: looked_message_columns
-- A message as a list shows it, without what it carries.
select
    l.id, l.box, l.stream, l.topic, '', l.state, l.attempt, l.deliveries, l.position,
    offpath.micros(l.created_at), offpath.micros(l.due_at),
    (
        l.holder is not null
        and l.due_at > coalesce(:now::text::timestamptz, clock_timestamp())
    )::int,
    l.key, '{}', offpath.micros(l.finished_at), offpath.micros(l.expires_at), l.reason,
    l.failure::text

-- part: messages_to_look_at
-- The messages that a page may walk: all, the dead, or those that were asked for by id.
where (:source::text[] is null or m.state = any (:source::text[]))
    and (
        :ids::text is null
        or m.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))
    )

-- name: look_at_messages_newest
-- Messages that match among the next rows, newest first, without what they carry.
--
-- The inner statement bounds what is looked at, and streams: nothing behind a full page is read.
/* part: looked_message_columns */
from (
    select m.*
    from offpath.message m
    /* part: messages_to_look_at */
        and (:after::bigint is null or m.position < :after::bigint)
    order by m.position desc
    limit :most::int
) as l
where
    /* part: looked_messages */
order by l.position desc
limit :limit::int

-- name: reach_messages_newest
-- The last row that such a page looked at; none when it looked at all that there is.
select m.position, offpath.micros(m.created_at)
from offpath.message m
/* part: messages_to_look_at */
    and (:after::bigint is null or m.position < :after::bigint)
order by m.position desc
limit 1 offset :most::int - 1

-- name: look_at_messages_oldest
-- Messages that match among the next rows, oldest first, without what they carry.
--
-- The inner statement bounds what is looked at, and streams: nothing behind a full page is read.
/* part: looked_message_columns */
from (
    select m.*
    from offpath.message m
    /* part: messages_to_look_at */
        and (:after::bigint is null or m.position > :after::bigint)
    order by m.position
    limit :most::int
) as l
where
    /* part: looked_messages */
order by l.position
limit :limit::int

-- name: reach_messages_oldest
-- The last row that such a page looked at; none when it looked at all that there is.
select m.position, offpath.micros(m.created_at)
from offpath.message m
/* part: messages_to_look_at */
    and (:after::bigint is null or m.position > :after::bigint)
order by m.position
limit 1 offset :most::int - 1
