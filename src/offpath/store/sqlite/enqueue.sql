-- name: job_insert
-- New jobs. Those whose id or unique key is taken are left out; the answer names the others, and
-- whether one is the root of a group that was there before it. The last columns are looked for
-- only where some job has them (`rich`): each is found by walking past all others. (Without the `+`
-- SQLite does not use the index for what RETURNING asks, and walks all groups for each job.)
insert into offpath_job (
    id, task, queue, state, priority, run_at, enqueued_at, group_id, parent, deadline,
    deadline_in, unique_key, unique_slot, unique_states, unique_until, fingerprint, dependents,
    tags, options, input, announce, reason, gate, gated_delay, blocked_until,
    limit_key, fair_key
)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, :now,
    value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11,
    value ->> 12, value ->> 13, value ->> 14, value ->> 15, value ->> 16, value ->> 17,
    value ->> 18, value ->> 19,
    case when :rich then value ->> 20 end,
    case when :rich then value ->> 21 end,
    case when :rich then value ->> 22 end,
    case when :rich then value ->> 23 end,
    case when :rich then value ->> 24 end,
    case when :rich then value ->> 25 end
from json_each(:batch)
where true
on conflict do nothing
returning id, group_id = id and exists (
    select 1 from offpath_group as known where known.id = +offpath_job.id
)

-- name: job_insert_one
-- As job_insert for a single job, the most frequent case, without the detour over JSON.
insert into offpath_job (
    id, task, queue, state, priority, run_at, enqueued_at, group_id, parent, deadline,
    deadline_in, unique_key, unique_slot, unique_states, unique_until, fingerprint, dependents,
    tags, options, input, announce, reason, gate, gated_delay, blocked_until,
    limit_key, fair_key
)
values (
    :id, :task, :queue, :state, :priority, :run_at, :now, :group_id, :parent, :deadline,
    :deadline_in, :unique_key, :unique_slot, :unique_states, :unique_until, :fingerprint,
    :dependents, :tags, :options, :input, :announce, :reason, :gate, :gated_delay, :blocked_until,
    :limit_key, :fair_key
)
on conflict do nothing
returning id, group_id = id and exists (
    select 1 from offpath_group as known where known.id = +offpath_job.id
)

-- name: job_same
-- The jobs that already have one of these ids.
select id, fingerprint, run_at from offpath_job
where id in (select value from json_each(:ids))

-- name: slot_holders
-- Who holds these unique keys.
select unique_slot, id, fingerprint, state, run_at, unique_until from offpath_job
where unique_slot in (select value from json_each(:keys))

-- name: slot_free
-- Takes unique keys away from holders whose period has passed.
update offpath_job set unique_slot = null
where unique_slot in (select value from json_each(:keys)) and unique_until <= :now

-- name: job_replace
-- Waiting holders of unique keys take over new input, options and times; they stay who they are.
update offpath_job set
    task = new.value ->> 1,
    queue = new.value ->> 2,
    state = case
        when offpath_job.state = 'blocked' and offpath_job.reason is not 'limit' then 'blocked'
        -- It has no gate to wait for: the gate is another job's.
        when new.value ->> 5 > :now then 'scheduled'
        when new.value ->> 24 is not null then 'blocked'
        else 'ready'
    end,
    reason = case
        when offpath_job.state = 'blocked' and offpath_job.reason is not 'limit' then reason
        when new.value ->> 5 <= :now and new.value ->> 24 is not null then 'limit'
    end,
    blocked_until = case
        when offpath_job.state = 'blocked' and offpath_job.reason is not 'limit' then blocked_until
        when new.value ->> 5 <= :now and new.value ->> 24 is not null then new.value ->> 8
    end,
    limit_key = new.value ->> 24,
    fair_key = new.value ->> 25,
    priority = new.value ->> 4,
    run_at = new.value ->> 5,
    deadline = new.value ->> 8,
    deadline_in = new.value ->> 9,
    fingerprint = new.value ->> 14,
    dependents = new.value ->> 15,
    tags = new.value ->> 16,
    options = new.value ->> 17,
    input = new.value ->> 18,
    announce = new.value ->> 19,
    gated_delay = case
        when offpath_job.gated_delay is not null then new.value ->> 22
    end
from json_each(:batch) as new
where offpath_job.id = new.value ->> 0
returning id

-- name: job_undo
-- Takes back what the same transition has just inserted, so that a refusal leaves no trace.
delete from offpath_job where id in (select value from json_each(:ids))
returning id
