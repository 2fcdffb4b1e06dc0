-- part: job_filter
-- What a page of jobs may be asked for. Whatever is not asked for is null.
and (:tasks is null or job.task in (select value from json_each(:tasks)))
and (:queues is null or job.queue in (select value from json_each(:queues)))
and (:reasons is null or job.reason in (select value from json_each(:reasons)))
and (
    :faults is null
    or (job.state = 'dead' and job.error_key in (select value from json_each(:faults)))
)
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
            select 1
            from json_each(case when json_valid(job.tags) then job.tags else '[]' end) as tag
            where tag.value = wanted.value
        )
)
and (
    :text is null
    or (:arguments and instr(job.input, :text) > 0)
    or instr(
        (
            select json_extract(past.failure, '$.message') from offpath_failure as past
            where past.job = job.seq order by past.seq desc limit 1
        ),
        :text
    ) > 0
)

-- part: asked_rows
-- The ids of the few rows that a page may be asked for, each found by an index.
select value as id from json_each(coalesce(:ids, '[]'))
union
select :group_id where :group_id is not null
union
select member.id from offpath_job as member
where member.group_id = :group_id and member.group_id <> member.id
union
select part.id from offpath_job as part
where part.group_id = :parent and part.parent = :parent
union
select child.id from offpath_job as child indexed by offpath_job_child
where child.parent = :parent and child.parent <> child.group_id

-- name: browse_newest
-- Ids of jobs that match among the next rows, newest first.
--
-- All rows by id, or the few ones that were asked for: SQLite plans without the values, and a
-- condition on these alone is tried once, before a row is read.
select job.id
from (
    select * from (
        select walked.id from offpath_job as walked
        where
            :source is null and :ids is null and :group_id is null and :parent is null
            and (:after is null or walked.id < :after)
        order by walked.id desc
        limit :most
    )
    union all
    select * from (
        select candidate.id from (
            /* part: asked_rows */
            union
            select dead.id from offpath_job as dead indexed by offpath_job_dead
            where
                :source = '["dead"]'
                and dead.state = 'dead'
                and (:after is null or dead.id < :after)
            union
            select busy.id from offpath_job as busy indexed by offpath_job_running
            where :source = '["running"]' and busy.state = 'running'
        ) as candidate
        cross join offpath_job as known on known.id = candidate.id
        where
            (:after is null or known.id < :after)
            and (:ids is null or known.id in (select value from json_each(:ids)))
            and (:group_id is null or known.group_id = :group_id or known.id = :root)
            and (:parent is null or known.parent = :parent)
        order by candidate.id desc
        limit :most
    )
) as looked
cross join offpath_job as job on job.id = looked.id
where
    (:states is null or job.state in (select value from json_each(:states)))
    /* part: job_filter */
order by looked.id desc
limit :limit

-- name: reach_newest
-- The last row that such a page looked at; none when it looked at all that there is.
select job.id, job.enqueued_at
from (
    select * from (
        select walked.id from offpath_job as walked
        where
            :source is null and :ids is null and :group_id is null and :parent is null
            and (:after is null or walked.id < :after)
        order by walked.id desc
        limit 1 offset :most - 1
    )
    union all
    select * from (
        select candidate.id from (
            /* part: asked_rows */
            union
            select dead.id from offpath_job as dead indexed by offpath_job_dead
            where
                :source = '["dead"]'
                and dead.state = 'dead'
                and (:after is null or dead.id < :after)
            union
            select busy.id from offpath_job as busy indexed by offpath_job_running
            where :source = '["running"]' and busy.state = 'running'
        ) as candidate
        cross join offpath_job as known on known.id = candidate.id
        where
            (:after is null or known.id < :after)
            and (:ids is null or known.id in (select value from json_each(:ids)))
            and (:group_id is null or known.group_id = :group_id or known.id = :root)
            and (:parent is null or known.parent = :parent)
        order by candidate.id desc
        limit 1 offset :most - 1
    )
) as looked
cross join offpath_job as job on job.id = looked.id

-- name: browse_oldest
-- Ids of jobs that match among the next rows, oldest first.
--
-- All rows by id, or the few ones that were asked for: SQLite plans without the values, and a
-- condition on these alone is tried once, before a row is read.
select job.id
from (
    select * from (
        select walked.id from offpath_job as walked
        where
            :source is null and :ids is null and :group_id is null and :parent is null
            and (:after is null or walked.id > :after)
        order by walked.id
        limit :most
    )
    union all
    select * from (
        select candidate.id from (
            /* part: asked_rows */
            union
            select dead.id from offpath_job as dead indexed by offpath_job_dead
            where
                :source = '["dead"]'
                and dead.state = 'dead'
                and (:after is null or dead.id > :after)
            union
            select busy.id from offpath_job as busy indexed by offpath_job_running
            where :source = '["running"]' and busy.state = 'running'
        ) as candidate
        cross join offpath_job as known on known.id = candidate.id
        where
            (:after is null or known.id > :after)
            and (:ids is null or known.id in (select value from json_each(:ids)))
            and (:group_id is null or known.group_id = :group_id or known.id = :root)
            and (:parent is null or known.parent = :parent)
        order by candidate.id
        limit :most
    )
) as looked
cross join offpath_job as job on job.id = looked.id
where
    (:states is null or job.state in (select value from json_each(:states)))
    /* part: job_filter */
order by looked.id
limit :limit

-- name: reach_oldest
-- The last row that such a page looked at; none when it looked at all that there is.
select job.id, job.enqueued_at
from (
    select * from (
        select walked.id from offpath_job as walked
        where
            :source is null and :ids is null and :group_id is null and :parent is null
            and (:after is null or walked.id > :after)
        order by walked.id
        limit 1 offset :most - 1
    )
    union all
    select * from (
        select candidate.id from (
            /* part: asked_rows */
            union
            select dead.id from offpath_job as dead indexed by offpath_job_dead
            where
                :source = '["dead"]'
                and dead.state = 'dead'
                and (:after is null or dead.id > :after)
            union
            select busy.id from offpath_job as busy indexed by offpath_job_running
            where :source = '["running"]' and busy.state = 'running'
        ) as candidate
        cross join offpath_job as known on known.id = candidate.id
        where
            (:after is null or known.id > :after)
            and (:ids is null or known.id in (select value from json_each(:ids)))
            and (:group_id is null or known.group_id = :group_id or known.id = :root)
            and (:parent is null or known.parent = :parent)
        order by candidate.id
        limit 1 offset :most - 1
    )
) as looked
cross join offpath_job as job on job.id = looked.id

-- name: briefs
-- What lists show of these jobs.
select
    job.id, job.task, job.queue, job.state, job.priority, job.run_at, job.enqueued_at,
    job.attempt, job.deliveries, job.group_id, job.parent, job.tags, job.worker,
    job.cancel_requested, job.started_at, job.finished_at, job.reason, job.limit_key, past.type,
    substr(json_extract(past.failure, '$.message'), 1, 300), job.redriven_at, job.options,
    coalesce(json_extract(past.failure, '$.attempt'), 1),
    json_extract(past.failure, '$.started_at'), json_extract(past.failure, '$.at')
from offpath_job as job
left join offpath_failure as past on past.seq = (
    select last.seq from offpath_failure as last
    where last.job = job.seq order by last.seq desc limit 1
)
where job.id in (select value from json_each(:ids))

-- name: members
-- The first members of a group by id, its root among them.
select id, task, state, parent, gate from (
    select job.id, job.task, job.state, job.parent, iif(job.gate_left = 0, job.gate, null) as gate
    from offpath_job as job
    where job.id = :root
    union
    select * from (
        select job.id, job.task, job.state, job.parent, iif(job.gate_left = 0, job.gate, null)
        from offpath_job as job
        where job.group_id = :group_id and job.group_id <> job.id
        order by job.id
        limit :limit
    )
)
order by id
limit :limit

-- name: member_gates
-- These gates, without what they watch.
select id, state, need, counting, total, succeeded, failed, deadline, 0, null
from offpath_job_gate
where id in (select value from json_each(:gates))
order by id

-- name: watched_members
-- The members among those that these gates watch, in their order.
select gate, job
from offpath_gate_watch
where gate in (select value from json_each(:gates))
    and job in (select value from json_each(:members))
order by gate, place

-- name: browse_groups
-- Groups that have a row, newest first.
select
    looked.id, looked.open, looked.failed, looked.policy, looked.closing, looked.final,
    root.task, root.enqueued_at
from (
    select id, open, failed, policy, closing, final from offpath_group
    where :after is null or id < :after
    order by id desc
    limit :most
) as looked
left join offpath_job as root on root.id = looked.id
where :unended is null or (looked.open > 0) = :unended
order by looked.id desc
limit :limit

-- name: open_gates
-- Gates that wait, by id, each with how many jobs it holds and one of them.
select
    gate.id, gate.state, gate.need, gate.counting, gate.total, gate.succeeded, gate.failed,
    gate.deadline,
    (
        select count(*) from (
            select 1 from offpath_job as held
            where held.gate = gate.id and held.state = 'blocked' and held.gate_left = 0
            limit 1000
        )
    ),
    (
        select min(few.id) from (
            select held.id from offpath_job as held
            where held.gate = gate.id and held.state = 'blocked' and held.gate_left = 0
            limit 1000
        ) as few
    )
from offpath_job_gate as gate
where gate.state = 'open' and (:after is null or gate.id > :after)
order by gate.id
limit :limit

-- name: pending_signals
-- Signals that nobody has taken, by id.
select id, target, event, payload, expires_at, sent_at
from offpath_signal
where taken_at is null and expires_at > :now and (:after is null or id > :after)
order by id
limit :limit

-- name: drop_signals
-- Nobody gets these any more; they stay known until their time is over.
update offpath_signal set taken_at = :now
where id in (select value from json_each(:ids)) and taken_at is null
returning id

-- name: next_due
-- The ready jobs of a queue that are next: the first of each lane, and of these the best.
with recursive lanes (task) as (
    select (
        select job.task from offpath_job as job
        where job.state = 'ready' and job.queue = :queue
        order by job.task limit 1
    )
    union all
    select (
        select job.task from offpath_job as job
        where job.state = 'ready' and job.queue = :queue and job.task > lanes.task
        order by job.task limit 1
    )
    from lanes where lanes.task is not null
)
select job.id
from lanes
cross join offpath_job as job on job.id in (
    select best.id from offpath_job as best
    where best.state = 'ready' and best.queue = :queue and best.task = lanes.task
    order by best.priority desc, best.run_at, best.id
    limit :limit
)
where lanes.task is not null
order by job.priority desc, job.run_at, job.id
limit :limit

-- name: newest_events
-- Events of the log, newest first.
select position, id, domain, type, stream, payload, at, key, 0, headers
from offpath_log
where (:domain is null or domain = :domain) and (:before is null or position < :before)
order by position desc
limit :limit

-- name: job_ids
-- Jobs between two ids.
select id from offpath_job
where id between :first and :last
order by id
limit :limit

-- name: gate_ids
-- Gates between two ids.
select id from offpath_job_gate
where id between :first and :last
order by id
limit :limit

-- name: message_ids
-- Messages between two ids.
select id from offpath_message
where id between :first and :last
order by id
limit :limit

-- name: event_ids
-- Events between two ids.
select id from offpath_log
where id between :first and :last
order by id
limit :limit

-- name: letter_ids
-- Letters between two ids.
select id from offpath_letter
where id between :first and :last
order by id
limit :limit

-- name: action_ids
-- Actions between two ids.
select id from offpath_action
where id between :first and :last
order by id
limit :limit

-- name: worker_ids
-- Workers between two ids.
select id from offpath_worker
where id between :first and :last
order by id
limit :limit

-- part: tallied_faults
-- What was looked at, by fault.
select
    task, reason, error_key, count(*), min(finished_at), max(finished_at),
    json_group_array(distinct queue), max(id), (select count(*) from looked)
from looked
where :task is null or task = :task
group by task, reason, error_key
order by count(*) desc, task, reason, error_key
limit :limit

-- name: faults
-- The newest dead jobs by their fault, the most frequent first.
with looked as materialized (
    select task, reason, error_key, queue, finished_at, id
    from offpath_job indexed by offpath_job_dead
    where state = 'dead'
    order by id desc
    limit :most
)
/* part: tallied_faults */

-- name: faults_since
-- The same of the jobs that died since a time, the latest deaths first.
with looked as materialized (
    select task, reason, error_key, queue, finished_at, id
    from offpath_job indexed by offpath_job_died
    where state = 'dead' and finished_at >= :since
    order by finished_at desc, id desc
    limit :most
)
/* part: tallied_faults */

-- name: dead_tally
-- The dead jobs up to a limit, and the oldest death; an index has each.
select
    (
        select count(*) from (
            select 1 from offpath_job indexed by offpath_job_dead where state = 'dead' limit :most
        )
    ),
    (
        select finished_at from offpath_job indexed by offpath_job_died
        where state = 'dead' and finished_at is not null
        order by finished_at
        limit 1
    )

-- part: looked_messages
-- What a page of messages may be asked for. Whatever is not asked for is null.
(:box is null or message.box = :box)
and (:streams is null or message.stream in (select value from json_each(:streams)))
and (:topics is null or message.topic in (select value from json_each(:topics)))
and (:states is null or message.state in (select value from json_each(:states)))
and (:keys is null or message.key in (select value from json_each(:keys)))
and (:reasons is null or message.reason in (select value from json_each(:reasons)))
and (
    :not_reasons is null or message.reason is null
    or message.reason not in (select value from json_each(:not_reasons))
)
and (:created_after is null or message.created_at >= :created_after)
and (:created_before is null or message.created_at < :created_before)

-- part: looked_message_columns
-- A message as a list shows it, without what it carries.
select
    id, box, stream, topic, '', state, attempt, deliveries, position, created_at, due_at,
    holder is not null and due_at > :now, key, '{}', finished_at, expires_at, reason, failure

-- part: few_messages_below
-- The messages that were asked for by id, or the dead, newest first.
select candidate.place from (
    select named.position as place from offpath_message as named
    where named.id in (select value from json_each(coalesce(:ids, '[]')))
    union all
    select dead.position from offpath_message as dead
        indexed by offpath_message_dead_place
    where
        :source is not null and :ids is null
        and dead.state = 'dead'
        and (:after is null or dead.position < :after)
) as candidate
where (:after is null or candidate.place < :after)
order by candidate.place desc

-- part: few_messages_above
-- The same, oldest first.
select candidate.place from (
    select named.position as place from offpath_message as named
    where named.id in (select value from json_each(coalesce(:ids, '[]')))
    union all
    select dead.position from offpath_message as dead
        indexed by offpath_message_dead_place
    where
        :source is not null and :ids is null
        and dead.state = 'dead'
        and (:after is null or dead.position > :after)
) as candidate
where (:after is null or candidate.place > :after)
order by candidate.place

-- part: all_messages_below
-- Every message by position, newest first.
select walked.position as place from offpath_message as walked
where
    :source is null and :ids is null
    and (:after is null or walked.position < :after)
order by walked.position desc

-- part: all_messages_above
-- The same, oldest first.
select walked.position as place from offpath_message as walked
where
    :source is null and :ids is null
    and (:after is null or walked.position > :after)
order by walked.position

-- name: look_at_messages_newest
-- Messages that match among the next rows, newest first, without what they carry.
--
-- All rows by position, or the few ones that were asked for, or the dead: SQLite plans without the
-- values, and a condition on these alone is tried once, before a row is read.
/* part: looked_message_columns */
from (
    select * from (
        /* part: all_messages_below */
        limit :most
    )
    union all
    select * from (
        /* part: few_messages_below */
        limit :most
    )
) as looked
cross join offpath_message as message on message.position = looked.place
where
    /* part: looked_messages */
order by looked.place desc
limit :limit

-- name: reach_messages_newest
-- The last row that such a page looked at; none when it looked at all that there is.
select message.position, message.created_at
from (
    select * from (
        /* part: all_messages_below */
        limit 1 offset :most - 1
    )
    union all
    select * from (
        /* part: few_messages_below */
        limit 1 offset :most - 1
    )
) as looked
cross join offpath_message as message on message.position = looked.place

-- name: look_at_messages_oldest
-- Messages that match among the next rows, oldest first, without what they carry.
--
-- All rows by position, or the few ones that were asked for, or the dead: SQLite plans without the
-- values, and a condition on these alone is tried once, before a row is read.
/* part: looked_message_columns */
from (
    select * from (
        /* part: all_messages_above */
        limit :most
    )
    union all
    select * from (
        /* part: few_messages_above */
        limit :most
    )
) as looked
cross join offpath_message as message on message.position = looked.place
where
    /* part: looked_messages */
order by looked.place
limit :limit

-- name: reach_messages_oldest
-- The last row that such a page looked at; none when it looked at all that there is.
select message.position, message.created_at
from (
    select * from (
        /* part: all_messages_above */
        limit 1 offset :most - 1
    )
    union all
    select * from (
        /* part: few_messages_above */
        limit 1 offset :most - 1
    )
) as looked
cross join offpath_message as message on message.position = looked.place
