-- name: add_messages
-- New messages. Those whose id or inbox key is taken are left out; the answer names the others.
insert into offpath_message (id, box, stream, key, topic, due_at, headers, payload, created_at)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, :now
from json_each(:batch)
where true
on conflict (id) do nothing
on conflict (stream, key) where box = 'in' do nothing
returning id

-- name: known_messages
-- Which messages the store has of these ids, or of these sources and keys. One that is known by its
-- id tells no key: it may be of the outbox, whose keys say nothing of who has one of the inbox.
select id, null, null from offpath_message where id in (select value from json_each(:ids))
union
select known.id, known.stream, known.key
from json_each(:accepted) as wanted
cross join offpath_message as known
where
    known.box = 'in' and known.stream = wanted.value ->> 0 and known.key = wanted.value ->> 1

-- name: undo_announcements
-- Takes back what the jobs told that the same transition has just inserted.
delete from offpath_message
where position in (
    select (
        select max(told.position) from offpath_message as told
        where
            told.box = 'out' and told.stream = 'offpath.jobs' and told.key = job.id
            and told.state = 'pending'
    )
    from json_each(:ids) as undone
    cross join offpath_job as job
    where job.id = undone.value and (job.announce & 1) <> 0
)
returning id

-- name: due_streams
-- When the first message of each stream is due: of those that lead their key, and of those behind.
select
    wanted.value,
    (
        select message.due_at from offpath_message as message
        where
            message.state = 'pending' and message.box = :box and message.stream = wanted.value
            and message.leads = 1
        order by message.due_at limit 1
    ),
    (
        select message.due_at from offpath_message as message
        where
            message.state = 'pending' and message.box = :box and message.stream = wanted.value
            and message.leads = 0
        order by message.due_at limit 1
    )
from json_each(:streams) as wanted

-- name: lease_messages
-- The longest due of one stream.
update offpath_message set
    holder = :holder,
    free_due_at = due_at,
    due_at = :until,
    deliveries = deliveries + 1
where position in (
    select position from (
        select position, due_at from (
            select message.position, message.due_at from offpath_message as message
            where
                message.state = 'pending' and message.box = :box and message.stream = :stream
                and message.leads = 1 and message.due_at <= :now
            order by message.due_at, message.position
            limit :limit
        )
        union all
        select position, due_at from (
            select message.position, message.due_at from offpath_message as message
            where
                message.state = 'pending' and message.box = :box and message.stream = :stream
                and message.leads = 0 and message.due_at <= :now
            order by message.due_at, message.position
            limit :limit
        )
    )
    order by due_at, position
    limit :limit
)
returning
    id, stream, topic, payload, attempt, deliveries, position, created_at, key, headers,
    free_due_at

-- name: lease_ordered
-- As lease_messages, in the order of each key. The queue of the recursion holds the next message of
-- each key; the one that is due first is taken, and the next of its key, if due, takes its place.
update offpath_message set
    holder = :holder,
    free_due_at = due_at,
    due_at = :until,
    deliveries = deliveries + 1
where position in (
    with recursive turn (due_at, position, key) as (
        select * from (
            select message.due_at, message.position, message.key
            from offpath_message as message
            where
                message.state = 'pending' and message.box = :box and message.stream = :stream
                and message.leads = 1 and message.due_at <= :now
            order by message.due_at, message.position
            limit :limit
        )
        union all
        select max(turn.due_at, behind.due_at), behind.position, behind.key
        from turn
        cross join offpath_message as behind
        where
            behind.position = (
                select next.position from offpath_message as next
                where
                    next.state = 'pending' and next.box = :box and next.stream = :stream
                    and next.key = turn.key and next.position > turn.position
                order by next.position limit 1
            )
            and behind.due_at <= :now
        order by 1, 2
        limit :limit
    )
    select position from turn
)
returning
    id, stream, topic, payload, attempt, deliveries, position, created_at, key, headers,
    free_due_at

-- name: done_messages
-- Messages that succeeded, the most frequent case. The fence is in the condition; `+` keeps the
-- planner on the id.
update offpath_message set
    state = 'done',
    holder = null,
    free_due_at = null,
    finished_at = :now,
    expires_at = new.value ->> 2
from json_each(:batch) as new
where
    offpath_message.id = new.value ->> 0
    and +offpath_message.holder = new.value ->> 1
    and +offpath_message.state = 'pending'
returning id, state, key is not null

-- name: settle_messages
-- As done_messages, for every other end of an attempt.
update offpath_message set
    state = new.value ->> 3,
    holder = null,
    free_due_at = null,
    due_at = case new.value ->> 4
        when 'due' then new.value ->> 5 when 'free' then free_due_at else due_at
    end,
    attempt = attempt + (new.value ->> 4 is 'due'),
    deliveries = max(deliveries - (new.value ->> 4 is 'free'), 0),
    reason = new.value ->> 6,
    failure = coalesce(new.value ->> 7, failure),
    finished_at = case when new.value ->> 3 <> 'pending' then :now end,
    expires_at = new.value ->> 2
from json_each(:batch) as new
where
    offpath_message.id = new.value ->> 0
    and +offpath_message.holder = new.value ->> 1
    and +offpath_message.state = 'pending'
returning id, state, key is not null
