-- part: message_filter
-- What a page of messages may be asked for. Whatever is not asked for is null.
and (:box is null or message.box = :box)
and (:ids is null or message.id in (select value from json_each(:ids)))
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

-- name: messages_newest
-- Messages that match, newest first.
select
    id, box, stream, topic, payload, state, attempt, deliveries, position, created_at, due_at,
    holder is not null and due_at > :now, key, headers, finished_at, expires_at, reason, failure
from offpath_message as message
where
    (:after is null or message.position < :after)
    /* part: message_filter */
order by message.position desc
limit :limit

-- name: messages_oldest
-- Messages that match, oldest first.
select
    id, box, stream, topic, payload, state, attempt, deliveries, position, created_at, due_at,
    holder is not null and due_at > :now, key, headers, finished_at, expires_at, reason, failure
from offpath_message as message
where
    (:after is null or message.position > :after)
    /* part: message_filter */
order by message.position
limit :limit

-- name: some_messages
-- As the two above, but only among given ids, or the dead: a table of millions is not walked for a
-- handful.
select
    id, box, stream, topic, payload, state, attempt, deliveries, position, created_at, due_at,
    holder is not null and due_at > :now, key, headers, finished_at, expires_at, reason, failure
from (
    select named.position as place from offpath_message as named
    where named.id in (select value from json_each(coalesce(:ids, '[]')))
    union
    select dead.position from offpath_message as dead where :dead and dead.state = 'dead'
) as candidate
cross join offpath_message as message
where
    message.position = candidate.place
    and (
        :after is null
        or case when :newest then message.position < :after else message.position > :after end
    )
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

-- name: revive_messages
-- Ended messages start afresh.
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

-- name: delete_messages
-- Removes ended messages.
delete from offpath_message
where id in (select value from json_each(:ids)) and +state <> 'pending'
returning id

-- name: message_backlog
-- What waits in each stream that has pending or dead messages: due or held, and dead, each counted
-- up to a limit. Streams are found by stepping over the indexes.
with recursive
waiting (box, stream) as (
    select box, stream from (
        select first.box, first.stream from offpath_message as first
        where first.state = 'pending'
        order by first.box, first.stream limit 1
    )
    union all
    select
        coalesce(
            (
                select waiting.box from offpath_message as next
                where next.state = 'pending' and next.box = waiting.box and next.stream > waiting.stream
                order by next.stream limit 1
            ),
            (
                select next.box from offpath_message as next
                where next.state = 'pending' and next.box > waiting.box
                order by next.box limit 1
            )
        ),
        coalesce(
            (
                select next.stream from offpath_message as next
                where next.state = 'pending' and next.box = waiting.box and next.stream > waiting.stream
                order by next.stream limit 1
            ),
            (
                select next.stream from offpath_message as next
                where next.state = 'pending' and next.box > waiting.box
                order by next.box, next.stream limit 1
            )
        )
    from waiting where waiting.box is not null
),
ended (box, stream) as (
    select box, stream from (
        select first.box, first.stream from offpath_message as first
        where first.state = 'dead'
        order by first.box, first.stream limit 1
    )
    union all
    select
        coalesce(
            (
                select ended.box from offpath_message as next
                where next.state = 'dead' and next.box = ended.box and next.stream > ended.stream
                order by next.stream limit 1
            ),
            (
                select next.box from offpath_message as next
                where next.state = 'dead' and next.box > ended.box
                order by next.box limit 1
            )
        ),
        coalesce(
            (
                select next.stream from offpath_message as next
                where next.state = 'dead' and next.box = ended.box and next.stream > ended.stream
                order by next.stream limit 1
            ),
            (
                select next.stream from offpath_message as next
                where next.state = 'dead' and next.box > ended.box
                order by next.box, next.stream limit 1
            )
        )
    from ended where ended.box is not null
),
place (box, stream) as (
    select waiting.box, waiting.stream from waiting where waiting.box is not null
    union
    select ended.box, ended.stream from ended where ended.box is not null
)
select
    place.box,
    place.stream,
    (
        select count(*) from (
            select 1 from offpath_message as message
            where
                message.state = 'pending' and message.box = place.box and message.stream = place.stream
                and message.leads in (0, 1) and message.due_at <= :now
            union all
            select 1 from offpath_message as message
            where
                message.holder is not null and message.box = place.box and message.stream = place.stream
                and message.due_at > :now
            limit :limit
        )
    ),
    (
        select count(*) from (
            select 1 from offpath_message as message
            where message.state = 'dead' and message.box = place.box and message.stream = place.stream
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
                        message.state = 'pending' and message.box = place.box
                        and message.stream = place.stream
                        and message.leads in (0, 1) and message.due_at <= :now
                    union all
                    select message.position from offpath_message as message
                    where
                        message.holder is not null and message.box = place.box
                        and message.stream = place.stream
                    union all
                    -- What has failed waits, too, though it is due later.
                    select later.position from (
                        select message.position, message.attempt
                        from offpath_message as message
                        where
                            message.state = 'pending' and message.box = place.box
                            and message.stream = place.stream
                            and message.leads in (0, 1) and message.due_at > :now
                        limit 5000
                    ) as later
                    where later.attempt > 1
                )
            )
    ),
    (
        select message.finished_at from offpath_message as message
        where message.state = 'dead' and message.box = place.box and message.stream = place.stream
        order by message.finished_at limit 1
    )
from place
order by place.box, place.stream

-- name: prune_messages
-- Removes ended messages whose time to be kept has passed.
delete from offpath_message
where position in (
    select position from offpath_message
    where expires_at <= :now
    order by expires_at
    limit :limit
)
returning id
