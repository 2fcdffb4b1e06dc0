-- name: add_action
-- Notes what an operator asked for; a row of this id stays as it is.
insert into offpath_action
    (at, held_until, id, actor, via, verb, target, options, note, holder)
select
    :now, :now + :lease,
    row.value ->> 'id', row.value ->> 'actor', row.value ->> 'via', row.value ->> 'verb',
    row.value ->> 'target', row.value ->> 'options', row.value ->> 'note', row.value ->> 'holder'
from json_each(:batch) as row
where true
on conflict (id) do nothing

-- name: action
-- One action.
select
    id, at, actor, via, verb, target, options, note, state, cursor, changed, unchanged, reasons,
    error, resumed, holder, held_until, finished_at
from offpath_action
where id = :id

-- name: step_action
-- Notes how far its holder is; the last step ends it. One that was stopped during a step stays so.
update offpath_action set
    state = iif(state = 'stopped', state, :state),
    cursor = :cursor,
    changed = :changed,
    unchanged = :unchanged,
    reasons = :reasons,
    error = :error,
    held_until = :now + :lease,
    finished_at = iif(state = 'stopped', finished_at, iif(:state <> 'running', :now, null))
where id = :id and holder = :holder and state in ('running', 'stopped')
returning
    id, at, actor, via, verb, target, options, note, state, cursor, changed, unchanged, reasons,
    error, resumed, holder, held_until, finished_at

-- name: take_action
-- Holds the oldest one whose holder's time is over.
update offpath_action set holder = :holder, held_until = :now + :lease, resumed = 1
where id = (
    select late.id from offpath_action as late
    where late.state = 'running' and late.held_until <= :now
        and late.verb in (select value from json_each(:verbs))
        and late.id not in (select value from json_each(:skip))
    order by late.id
    limit 1
)
returning
    id, at, actor, via, verb, target, options, note, state, cursor, changed, unchanged, reasons,
    error, resumed, holder, held_until, finished_at

-- name: late_action
-- Whether there is one whose holder's time is over.
select 1 from offpath_action
where state = 'running' and held_until <= :now
    and verb in (select value from json_each(:verbs))
    and id not in (select value from json_each(:skip))
limit 1

-- name: stop_action
-- Ends a running one between two of its steps.
update offpath_action set state = 'stopped', finished_at = :now
where id = :id and state = 'running'
returning 1

-- name: actions
-- Those that match, newest first.
select
    id, at, actor, via, verb, target, options, note, state, cursor, changed, unchanged, reasons,
    error, resumed, holder, held_until, finished_at
from offpath_action
where (:ids is null or id in (select value from json_each(:ids)))
    and (:states is null or state in (select value from json_each(:states)))
    and (:verbs is null or verb in (select value from json_each(:verbs)))
    and (:actors is null or actor in (select value from json_each(:actors)))
    and (:after is null or id < :after)
order by id desc
limit :limit

-- name: prune_actions
-- Removes old ones that have ended, or that nobody holds any more.
delete from offpath_action
where id in (
    select old.id from offpath_action as old
    where old.at < :before and (old.state <> 'running' or old.held_until < :before)
    order by old.at
    limit :limit
)
returning 1
