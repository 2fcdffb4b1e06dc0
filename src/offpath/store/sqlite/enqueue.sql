-- name: enqueue
-- New jobs. Those whose id or unique key is taken are left out; the answer names the others, and
-- whether one is the root of a group that was there before it. What all have in common is bound
-- once: bit n of `common` (2 for n = 1, 4 for n = 2, ...) is set where all rows have the same at
-- place n, whose parameter then stands for it. To find the rest, each row is walked. (Without the
-- `+` SQLite does not use the index for what RETURNING asks, and walks all groups for each job.)
insert into offpath_job (
    id, input, fingerprint, limit_key, fair_key, unique_key, unique_slot, unique_states,
    unique_until, run_at, group_id, task, queue, state, priority, parent, deadline, deadline_in,
    dependents, tags, options, announce, reason, gate, gated_delay, blocked_until, watched,
    headers, enqueued_at
)
select
    value ->> 0,
    case when :common & 2 then :input else value ->> 1 end,
    case when :common & 4 then :fingerprint else value ->> 2 end,
    case when :common & 8 then :limit_key else value ->> 3 end,
    case when :common & 16 then :fair_key else value ->> 4 end,
    case when :common & 32 then :unique_key else value ->> 5 end,
    case when :common & 64 then :unique_slot else value ->> 6 end,
    case when :common & 128 then :unique_states else value ->> 7 end,
    case when :common & 256 then :unique_until else value ->> 8 end,
    case when :common & 512 then :run_at else value ->> 9 end,
    coalesce(case when :common & 1024 then :group_id else value ->> 10 end, value ->> 0),
    case when :common & 2048 then :task else value ->> 11 end,
    case when :common & 4096 then :queue else value ->> 12 end,
    case when :common & 8192 then :state else value ->> 13 end,
    case when :common & 16384 then :priority else value ->> 14 end,
    case when :common & 32768 then :parent else value ->> 15 end,
    case when :common & 65536 then :deadline else value ->> 16 end,
    case when :common & 131072 then :deadline_in else value ->> 17 end,
    case when :common & 262144 then :dependents else value ->> 18 end,
    case when :common & 524288 then :tags else value ->> 19 end,
    case when :common & 1048576 then :options else value ->> 20 end,
    case when :common & 2097152 then :announce else value ->> 21 end,
    case when :common & 4194304 then :reason else value ->> 22 end,
    case when :common & 8388608 then :gate else value ->> 23 end,
    case when :common & 16777216 then :gated_delay else value ->> 24 end,
    case when :common & 33554432 then :blocked_until else value ->> 25 end,
    case when :common & 67108864 then :watched else value ->> 26 end,
    case when :common & 134217728 then :headers else value ->> 27 end,
    :now
from json_each(:batch)
where true
on conflict (id) do nothing
on conflict (unique_slot) where unique_slot is not null do nothing
returning id, group_id = id and exists (
    select 1 from offpath_group as known where known.id = +offpath_job.id
)

-- name: enqueue_one
-- As `enqueue` for a single job, the most frequent case, without the detour over JSON.
insert into offpath_job (
    id, input, fingerprint, limit_key, fair_key, unique_key, unique_slot, unique_states,
    unique_until, run_at, group_id, task, queue, state, priority, parent, deadline, deadline_in,
    dependents, tags, options, announce, reason, gate, gated_delay, blocked_until, watched,
    headers, enqueued_at
)
values (
    :id, :input, :fingerprint, :limit_key, :fair_key, :unique_key, :unique_slot, :unique_states,
    :unique_until, :run_at, coalesce(:group_id, :id), :task, :queue, :state, :priority, :parent,
    :deadline, :deadline_in, :dependents, :tags, :options, :announce, :reason, :gate,
    :gated_delay, :blocked_until, :watched, :headers, :now
)
on conflict (id) do nothing
on conflict (unique_slot) where unique_slot is not null do nothing
returning id, group_id = id and exists (
    select 1 from offpath_group as known where known.id = +offpath_job.id
)

-- name: same_ids
-- The jobs that already have one of these ids.
select id, fingerprint, run_at from offpath_job
where id in (select value from json_each(:ids))

-- name: holders
-- Who holds these unique keys.
select unique_slot, id, fingerprint, state, run_at, unique_until from offpath_job
where unique_slot in (select value from json_each(:keys))

-- name: release_keys
-- Takes unique keys away from holders whose period has passed.
update offpath_job set unique_slot = null
where unique_slot in (select value from json_each(:keys)) and unique_until <= :now

-- name: replace_holders
-- Waiting holders of unique keys take over new input, options and times; they stay who they are.
update offpath_job set
    task = new.value ->> 11,
    queue = new.value ->> 12,
    state = case
        when offpath_job.state = 'blocked' and offpath_job.reason is not 'limit' then 'blocked'
        -- It has no gate to wait for: the gate is another job's.
        when new.value ->> 9 > :now then 'scheduled'
        when new.value ->> 3 is not null then 'blocked'
        else 'ready'
    end,
    reason = case
        when offpath_job.state = 'blocked' and offpath_job.reason is not 'limit' then reason
        when new.value ->> 9 <= :now and new.value ->> 3 is not null then 'limit'
    end,
    blocked_until = case
        when offpath_job.state = 'blocked' and offpath_job.reason is not 'limit' then blocked_until
        when new.value ->> 9 <= :now and new.value ->> 3 is not null then new.value ->> 16
    end,
    limit_key = new.value ->> 3,
    fair_key = new.value ->> 4,
    headers = new.value ->> 27,
    priority = new.value ->> 14,
    run_at = new.value ->> 9,
    deadline = new.value ->> 16,
    deadline_in = new.value ->> 17,
    fingerprint = new.value ->> 2,
    dependents = new.value ->> 18,
    tags = new.value ->> 19,
    options = new.value ->> 20,
    input = new.value ->> 1,
    announce = new.value ->> 21,
    gated_delay = case
        when offpath_job.gated_delay is not null then new.value ->> 24
    end
from json_each(:batch) as new
where offpath_job.id = new.value ->> 0
returning id

-- name: withdraw
-- Takes back what the same transition has just inserted, so that a refusal leaves no trace.
delete from offpath_job where id in (select value from json_each(:ids))

-- name: lock_jobs
-- Which of these jobs are there, and how they have ended. Nobody else writes meanwhile.
select
    id,
    case state when 'succeeded' then 1 when 'dead' then -1 when 'cancelled' then -1 else 0 end
from offpath_job
where id in (select value from json_each(:ids))

-- name: watch_jobs
-- Watched jobs know that they are.
update offpath_job set watched = case when finished_at is null then 1 else 2 end
where id in (select value from json_each(:ids)) and watched = 0
