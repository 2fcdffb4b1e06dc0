-- name: lock_signals
-- Who sends and who waits for the same signal take turns.
select pg_advisory_xact_lock(k.key)
from (
    select distinct hashtextextended('offpath.signal/' || b.target || chr(31) || b.event, 0) as key
    from jsonb_to_recordset(:batch::text::jsonb) as b (target text, event text)
    order by key
) as k

-- name: signal_room
-- How many signals of a target nobody has taken, counted no further than need be.
select count(*) from (
    select 1 from offpath.signal s
    where
        s.target = :target::text and s.taken_at is null
        and s.expires_at > coalesce(:now::text::timestamptz, clock_timestamp())
    limit :most::int
) as unread

-- name: add_signal
-- Keeps a signal; no row in the answer when it is known.
insert into offpath.signal (id, sent_at, expires_at, target, event, payload)
select
    :id::text::uuid, clock.now, clock.now + :span::double precision * interval '1 second',
    :target::text, :event::text, :payload::text
from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now) as clock
on conflict (id) do nothing
returning 1

-- name: wake_sleeper
-- The job that waits longest for this signal becomes due, if nobody else is about to change it.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = 'ready',
    reason = null,
    run_at = (select clock.now from clock),
    blocked_until = null,
    unique_held = case
        when j.unique_key is null then false
        else offpath.may_hold(
            j.id, j.unique_key, j.unique_states, j.unique_until, 'queued',
            (select clock.now from clock)
        )
    end
where j.id = any (array(
    select o.id
    from offpath.job o
    where o.state = 'blocked'
        and o.reason = 'signal'
        and o.wait_target = :target::text
        and o.wait_event = :event::text
    order by o.wait_since, o.id
    limit 1
    for update skip locked
))
returning
    j.id::text, j.task, j.queue, coalesce(j.group_id, j.id::text), j.attempt, j.parent, j.announce

-- name: note_missed
-- Whether somebody still waits for this signal, who could not be woken at once.
update offpath.signal s
set missed = s.taken_at is null and exists (
    select
    from offpath.job j
    where j.state = 'blocked'
        and j.reason = 'signal'
        and j.wait_target = s.target
        and j.wait_event = s.event
)
where s.id = :id::text::uuid

-- name: take_signal
-- Takes the oldest signal.
update offpath.signal s
set taken_at = coalesce(:now::text::timestamptz, clock_timestamp()), missed = false
where s.id = (
    select o.id
    from offpath.signal o
    where o.target = :target::text
        and o.event = :event::text
        and o.taken_at is null
        and o.expires_at > (select coalesce(:now::text::timestamptz, clock_timestamp()))
    order by o.position
    limit 1
)
returning s.payload

-- name: met_signal
-- This job, which is held, has taken the signal that it was woken for.
update offpath.job j
set wait_target = null, wait_event = null
where j.id = :id::text::uuid and j.wait_target = :target::text and j.wait_event = :event::text
