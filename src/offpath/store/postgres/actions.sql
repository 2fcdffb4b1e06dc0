-- name: add_action
-- Notes what an operator asked for; a row of this id stays as it is.
insert into offpath.action
    (at, held_until, id, actor, via, verb, target, options, note, holder)
select
    clock.now, clock.now + :lease::double precision * interval '1 second',
    b.id, b.actor, b.via, b.verb, b.target, b.options, b.note, b.holder
from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now) as clock,
    jsonb_to_recordset(:batch::text::jsonb) as b (
        id text, actor text, via text, verb text, target text, options text, note text, holder text
    )
on conflict (id) do nothing

-- name: action
-- One action.
select
    a.id, offpath.micros(a.at), a.actor, a.via, a.verb, a.target, a.options, a.note, a.state,
    a.cursor, a.changed, a.unchanged, a.reasons, a.error, a.resumed::int, a.holder,
    offpath.micros(a.held_until), offpath.micros(a.finished_at)
from offpath.action a
where a.id = :id::text

-- name: step_action
-- Notes how far its holder is; the last step ends it. One that was stopped during a step stays so.
update offpath.action a
set state = case when a.state = 'stopped' then a.state else :state::text end,
    cursor = :cursor::text,
    changed = :changed::bigint,
    unchanged = :unchanged::bigint,
    reasons = :reasons::text,
    error = :error::text,
    held_until = clock.now + :lease::double precision * interval '1 second',
    finished_at = case
        when a.state = 'stopped' then a.finished_at
        when :state::text <> 'running' then clock.now
    end
from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now) as clock
where a.id = :id::text and a.holder = :holder::text and a.state in ('running', 'stopped')
returning
    a.id, offpath.micros(a.at), a.actor, a.via, a.verb, a.target, a.options, a.note, a.state,
    a.cursor, a.changed, a.unchanged, a.reasons, a.error, a.resumed::int, a.holder,
    offpath.micros(a.held_until), offpath.micros(a.finished_at)

-- name: take_action
-- Holds the oldest one whose holder's time is over, and that nobody else is taking.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
),
late as materialized (
    select o.id
    from offpath.action o
    where o.state = 'running'
        and o.held_until <= (select clock.now from clock)
        and o.verb = any (array(select jsonb_array_elements_text(:verbs::text::jsonb)))
    and o.id <> all (array(select jsonb_array_elements_text(:skip::text::jsonb)))
    order by o.id
    limit 1
    for update skip locked
)
update offpath.action a
set holder = :holder::text,
    held_until = clock.now + :lease::double precision * interval '1 second',
    resumed = true
from late, clock
where a.id = late.id
returning
    a.id, offpath.micros(a.at), a.actor, a.via, a.verb, a.target, a.options, a.note, a.state,
    a.cursor, a.changed, a.unchanged, a.reasons, a.error, a.resumed::int, a.holder,
    offpath.micros(a.held_until), offpath.micros(a.finished_at)

-- name: late_action
-- Whether there is one whose holder's time is over.
select 1
from offpath.action o
where o.state = 'running'
    and o.held_until <= coalesce(:now::text::timestamptz, clock_timestamp())
    and o.verb = any (array(select jsonb_array_elements_text(:verbs::text::jsonb)))
    and o.id <> all (array(select jsonb_array_elements_text(:skip::text::jsonb)))
limit 1

-- name: stop_action
-- Ends a running one between two of its steps.
update offpath.action a
set state = 'stopped', finished_at = coalesce(:now::text::timestamptz, clock_timestamp())
where a.id = :id::text and a.state = 'running'
returning 1

-- name: actions
-- Those that match, newest first.
select
    a.id, offpath.micros(a.at), a.actor, a.via, a.verb, a.target, a.options, a.note, a.state,
    a.cursor, a.changed, a.unchanged, a.reasons, a.error, a.resumed::int, a.holder,
    offpath.micros(a.held_until), offpath.micros(a.finished_at)
from offpath.action a
where (:ids::text is null
        or a.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb))))
    and (:states::text is null
        or a.state = any (array(select jsonb_array_elements_text(:states::text::jsonb))))
    and (:verbs::text is null
        or a.verb = any (array(select jsonb_array_elements_text(:verbs::text::jsonb))))
    and (:actors::text is null
        or a.actor = any (array(select jsonb_array_elements_text(:actors::text::jsonb))))
    and (:after::text is null or a.id < :after::text)
order by a.id desc
limit :limit::bigint

-- name: prune_actions
-- Removes old ones that have ended, or that nobody holds any more; none that somebody else removes.
with old as materialized (
    select o.id
    from offpath.action o
    where o.at < :before::text::timestamptz
        and (o.state <> 'running' or o.held_until < :before::text::timestamptz)
    order by o.at
    limit :limit::bigint
    for update skip locked
)
delete from offpath.action a
using old
where a.id = old.id
returning 1
