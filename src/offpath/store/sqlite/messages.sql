-- name: message_insert
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

-- name: message_known
-- Which messages the store has of these ids, or of these sources and keys. One that is known by its
-- id tells no key: it may be of the outbox, whose keys say nothing of who has one of the inbox.
select id, null, null from offpath_message where id in (select value from json_each(:ids))
union
select known.id, known.stream, known.key
from json_each(:accepted) as wanted
cross join offpath_message as known
where
    known.box = 'in' and known.stream = wanted.value ->> 0 and known.key = wanted.value ->> 1

-- name: announcement_undo
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

-- name: message_lanes
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

-- name: message_lease
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
    id, box, stream, topic, payload, holder, attempt, deliveries, position, created_at, key,
    headers, free_due_at

-- name: message_lease_ordered
-- As message_lease, in the order of each key. The queue of the recursion holds the next message of
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
    id, box, stream, topic, payload, holder, attempt, deliveries, position, created_at, key,
    headers, free_due_at

-- name: message_done
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

-- name: message_settle
-- As message_done, for every other end of an attempt.
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

-- name: message_revive
-- Ended messages are put back as fresh.
update offpath_message set
    state = 'pending',
    due_at = :now,
    attempt = 1,
    deliveries = 0,
    finished_at = null,
    expires_at = null,
    reason = null
where id in (select value from json_each(:ids)) and +state <> 'pending'
returning id

-- name: message_delete
-- Removes ended messages.
delete from offpath_message
where id in (select value from json_each(:ids)) and +state <> 'pending'
returning id

-- name: message_prune
-- Removes ended messages whose time to be kept has passed.
delete from offpath_message
where position in (
    select position from offpath_message
    where expires_at <= :now
    order by expires_at
    limit :limit
)
returning id

-- name: message_find
-- Messages that match, by position.
select
    id, box, stream, topic, payload, state, attempt, deliveries, position, created_at, due_at,
    holder, key, headers, finished_at, expires_at, reason, failure
from offpath_message as message
where
    message.position > :above
    and (:box is null or message.box = :box)
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
order by message.position
limit :limit

-- name: message_find_newest
-- As message_find, the newest first.
select
    id, box, stream, topic, payload, state, attempt, deliveries, position, created_at, due_at,
    holder, key, headers, finished_at, expires_at, reason, failure
from offpath_message as message
where
    message.position < :below
    and (:box is null or message.box = :box)
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
order by message.position desc
limit :limit

-- name: message_find_some
-- As the two above, but only among given ids, or the dead: a table of millions is not walked for a
-- handful.
select
    id, box, stream, topic, payload, state, attempt, deliveries, position, created_at, due_at,
    holder, key, headers, finished_at, expires_at, reason, failure
from (
    select named.position as place from offpath_message as named
    where named.id in (select value from json_each(coalesce(:ids, '[]')))
    union
    select dead.position from offpath_message as dead where :dead and dead.state = 'dead'
) as candidate
cross join offpath_message as message
where
    message.position = candidate.place
    and message.position > :above
    and message.position < :below
    and (:box is null or message.box = :box)
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
order by case when :newest then message.position end desc, message.position
limit :limit

-- name: message_pending_streams
-- Which boxes and streams have pending messages: one index probe each.
with recursive
lane (box, stream) as (
    select box, stream from (
        select first.box, first.stream from offpath_message as first
        where first.state = 'pending'
        order by first.box, first.stream limit 1
    )
    union all
    select
        coalesce(
            (
                select lane.box from offpath_message as next
                where next.state = 'pending' and next.box = lane.box and next.stream > lane.stream
                order by next.stream limit 1
            ),
            (
                select next.box from offpath_message as next
                where next.state = 'pending' and next.box > lane.box
                order by next.box limit 1
            )
        ),
        coalesce(
            (
                select next.stream from offpath_message as next
                where next.state = 'pending' and next.box = lane.box and next.stream > lane.stream
                order by next.stream limit 1
            ),
            (
                select next.stream from offpath_message as next
                where next.state = 'pending' and next.box > lane.box
                order by next.box, next.stream limit 1
            )
        )
    from lane where lane.box is not null
)
select box, stream from lane where box is not null

-- name: message_dead_streams
-- Which boxes and streams have dead messages.
with recursive
lane (box, stream) as (
    select box, stream from (
        select first.box, first.stream from offpath_message as first
        where first.state = 'dead'
        order by first.box, first.stream limit 1
    )
    union all
    select
        coalesce(
            (
                select lane.box from offpath_message as next
                where next.state = 'dead' and next.box = lane.box and next.stream > lane.stream
                order by next.stream limit 1
            ),
            (
                select next.box from offpath_message as next
                where next.state = 'dead' and next.box > lane.box
                order by next.box limit 1
            )
        ),
        coalesce(
            (
                select next.stream from offpath_message as next
                where next.state = 'dead' and next.box = lane.box and next.stream > lane.stream
                order by next.stream limit 1
            ),
            (
                select next.stream from offpath_message as next
                where next.state = 'dead' and next.box > lane.box
                order by next.box, next.stream limit 1
            )
        )
    from lane where lane.box is not null
)
select box, stream from lane where box is not null

-- name: message_backlog
-- What waits in one stream: due or held, and dead, each counted up to a limit.
select
    (
        select count(*) from (
            select 1 from offpath_message as message
            where
                message.state = 'pending' and message.box = :box and message.stream = :stream
                and message.leads in (0, 1) and message.due_at <= :now
            union all
            select 1 from offpath_message as message
            where
                message.holder is not null and message.box = :box and message.stream = :stream
                and message.due_at > :now
            limit :limit
        )
    ),
    (
        select count(*) from (
            select 1 from offpath_message as message
            where message.state = 'dead' and message.box = :box and message.stream = :stream
            limit :limit
        )
    ),
    (
        -- The first written is the oldest; positions are in the index.
        select oldest.created_at from offpath_message as oldest
        where
            oldest.position = (
                select min(position) from (
                    select message.position from offpath_message as message
                    where
                        message.state = 'pending' and message.box = :box
                        and message.stream = :stream
                        and message.leads in (0, 1) and message.due_at <= :now
                    union all
                    select message.position from offpath_message as message
                    where
                        message.holder is not null and message.box = :box
                        and message.stream = :stream
                    union all
                    -- What has failed waits, too, though it is due later.
                    select later.position from (
                        select message.position, message.attempt
                        from offpath_message as message
                        where
                            message.state = 'pending' and message.box = :box
                            and message.stream = :stream
                            and message.leads in (0, 1) and message.due_at > :now
                        limit 5000
                    ) as later
                    where later.attempt > 1
                )
            )
    ),
    (
        select message.finished_at from offpath_message as message
        where message.state = 'dead' and message.box = :box and message.stream = :stream
        order by message.finished_at limit 1
    )
