-- part: message_columns
-- The columns of a message as it is looked at.
    m.id, m.box, m.stream, m.topic, m.payload, m.state, m.attempt, m.deliveries, m.position,
    offpath.micros(m.created_at), offpath.micros(m.due_at),
    (
        m.holder is not null
        and m.due_at > coalesce(:now::text::timestamptz, clock_timestamp())
    )::int,
    m.key, m.headers, offpath.micros(m.finished_at), offpath.micros(m.expires_at), m.reason,
    m.failure::text
from offpath.message m
where (:box::text is null or m.box = :box::text)
    and (:ids::text is null or m.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb))))
    and (:streams::text is null or m.stream = any (array(select jsonb_array_elements_text(:streams::text::jsonb))))
    and (:topics::text is null or m.topic = any (array(select jsonb_array_elements_text(:topics::text::jsonb))))
    and (:states::text is null or m.state = any (array(select jsonb_array_elements_text(:states::text::jsonb))))
    and (:keys::text is null or m.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb))))
    and (:reasons::text is null or m.reason = any (array(select jsonb_array_elements_text(:reasons::text::jsonb))))
    and (
        :not_reasons::text is null
        or m.reason is null
        or m.reason <> all (array(select jsonb_array_elements_text(:not_reasons::text::jsonb)))
    )
    and (:created_after::text is null or m.created_at >= :created_after::text::timestamptz)
    and (:created_before::text is null or m.created_at < :created_before::text::timestamptz)

-- name: messages_newest
-- Messages that match, newest first.
select
/* part: message_columns */
    and (:after::bigint is null or m.position < :after::bigint)
order by m.position desc
limit :limit::int

-- name: messages_oldest
-- Messages that match, oldest first.
select
/* part: message_columns */
    and (:after::bigint is null or m.position > :after::bigint)
order by m.position
limit :limit::int

-- name: revive_messages
-- Ended messages start afresh.
update offpath.message m
set state = 'pending',
    attempt = 1,
    deliveries = 0,
    due_at = coalesce(:now::text::timestamptz, clock_timestamp()),
    reason = null,
    finished_at = null,
    expires_at = null
where m.id = any (array(
        select o.id
        from offpath.message o
        where o.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))
        order by o.id
        for update
    ))
    and m.state in ('done', 'dead')
returning m.id

-- name: delete_messages
-- Removes ended messages.
delete from offpath.message m
where m.id = any (array(
        select o.id
        from offpath.message o
        where o.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))
        order by o.id
        for update
    ))
    and m.state in ('done', 'dead')
returning m.id

-- name: message_backlog
-- What waits in each stream that has pending or dead messages, counted up to a limit.
--
-- Streams are found by stepping over the indexes. Of what is due later the first few thousand are
-- looked at, for those that are held, or have failed, are due again soon.
with recursive clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
pending (box, stream) as (
    (
        select m.box, m.stream
        from offpath.message m
        where m.state = 'pending'
        order by m.box, m.stream
        limit 1
    )
    union all
    select next.box, next.stream
    from pending p
    cross join lateral (
        select m.box, m.stream
        from offpath.message m
        where m.state = 'pending' and (m.box, m.stream) > (p.box, p.stream)
        order by m.box, m.stream
        limit 1
    ) as next
),
ended (box, stream) as (
    (
        select m.box, m.stream
        from offpath.message m
        where m.state = 'dead'
        order by m.box, m.stream
        limit 1
    )
    union all
    select next.box, next.stream
    from ended p
    cross join lateral (
        select m.box, m.stream
        from offpath.message m
        where m.state = 'dead' and (m.box, m.stream) > (p.box, p.stream)
        order by m.box, m.stream
        limit 1
    ) as next
),
streams as (
    select p.box, p.stream from pending p
    union
    select e.box, e.stream from ended e
)
select
    s.box, s.stream, least(due.many + held.many, :limit::int)::bigint, dead.many::bigint,
    offpath.micros(least(due.oldest, held.oldest)),
    offpath.micros(dead.oldest)
from streams s
cross join clock
cross join lateral (
    select count(*) as many, min(few.created_at) as oldest
    from (
        select m.created_at
        from offpath.message m
        where m.box = s.box and m.stream = s.stream and m.state = 'pending' and m.due_at <= clock.now
        order by m.due_at
        limit :limit::int
    ) as few
) as due
cross join lateral (
    select
        count(*) filter (where few.holder is not null) as many,
        min(few.created_at) filter (where few.holder is not null or few.attempt > 1) as oldest
    from (
        select m.created_at, m.holder, m.attempt
        from offpath.message m
        where m.box = s.box and m.stream = s.stream and m.state = 'pending' and m.due_at > clock.now
        order by m.due_at
        limit 5000
    ) as few
) as held
cross join lateral (
    select count(*) as many, min(few.finished_at) as oldest
    from (
        select m.finished_at
        from offpath.message m
        where m.box = s.box and m.stream = s.stream and m.state = 'dead'
        order by m.finished_at
        limit :limit::int
    ) as few
) as dead
order by s.box, s.stream

-- name: prune_messages
-- Removes ended messages whose time to be kept has passed.
delete from offpath.message m
where m.id = any (array(
    select o.id
    from offpath.message o
    where o.expires_at <= (select coalesce(:now::text::timestamptz, clock_timestamp()))
    order by o.expires_at
    limit :limit::int
    for update skip locked
))
returning m.id
