-- Jobs that break a rule of their table's first day.

-- name: contradictory
-- The jobs whose columns deny each other, among the ready ones or among all. Each part has an index or
-- is skipped as a whole: the first look is made while nothing could be leased.
with looked as not materialized (
    select * from offpath_job where state = 'ready'
    union all
    select * from offpath_job where :everywhere and state <> 'ready'
)
select seq from looked
where
    (
        attempt < 1 or deliveries < 0 or losses < 0 or redrives < 0
        or cancel_requested not in (0, 1)
        or (worker is not null) <> (state = 'running')
        or (finished_at is not null) <> (state in ('succeeded', 'dead', 'cancelled'))
        or (expires_at is not null and finished_at is null)
        or (unique_slot is not null and unique_slot is not unique_key)
        or (unique_states is not null) <> (unique_key is not null)
    )
    and state in ('ready', 'scheduled', 'running', 'blocked', 'succeeded', 'dead', 'cancelled')
limit :limit

-- name: set_contradictory_aside
-- Makes such jobs agree with themselves. Who has not ended is a dead letter when it is taken, by the
-- object in "dependents", which no worker can read; what stood there is kept in it.
update or ignore offpath_job set
    state = case when state = 'running' and worker is null then 'ready' else state end,
    worker = case when state = 'running' then worker end,
    finished_at = case
        when state in ('succeeded', 'dead', 'cancelled') then coalesce(finished_at, :now)
    end,
    expires_at = case when state in ('succeeded', 'dead', 'cancelled') then expires_at end,
    attempt = max(attempt, 1),
    deliveries = max(deliveries, 0),
    losses = max(losses, 0),
    redrives = max(redrives, 0),
    cancel_requested = cancel_requested <> 0,
    unique_slot = case when unique_states is not null and unique_slot is unique_key then unique_slot end,
    unique_key = case when unique_states is not null then unique_key end,
    unique_states = case when unique_key is not null then unique_states end,
    dependents = case
        when state in ('succeeded', 'dead', 'cancelled') then dependents
        else json_object('unreadable', json_object(
            'attempt', attempt,
            'deliveries', deliveries,
            'losses', losses,
            'redrives', redrives,
            'cancel_requested', cancel_requested,
            'worker', worker,
            'finished_at', finished_at,
            'expires_at', expires_at,
            'unique_key', unique_key,
            'unique_slot', unique_slot,
            'unique_states', unique_states,
            'dependents', dependents
        ))
    end
where seq in (select value from json_each(:jobs))
returning seq
