-- name: job_insert
-- New jobs. Those whose id or unique key is taken are left out; the answer names the others.
insert into offpath_job (
    id, task, queue, state, priority, run_at, enqueued_at, group_id, parent, deadline,
    deadline_in, unique_key, unique_slot, unique_states, unique_until, fingerprint, dependents,
    tags, options, input, announce
)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, :now,
    value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11,
    value ->> 12, value ->> 13, value ->> 14, value ->> 15, value ->> 16, value ->> 17,
    value ->> 18, value ->> 19
from json_each(:batch)
where true
on conflict do nothing
returning id

-- name: job_insert_one
-- As job_insert for a single job, the most frequent case, without the detour over JSON.
insert into offpath_job (
    id, task, queue, state, priority, run_at, enqueued_at, group_id, parent, deadline,
    deadline_in, unique_key, unique_slot, unique_states, unique_until, fingerprint, dependents,
    tags, options, input, announce
)
values (
    :id, :task, :queue, :state, :priority, :run_at, :now, :group_id, :parent, :deadline,
    :deadline_in, :unique_key, :unique_slot, :unique_states, :unique_until, :fingerprint,
    :dependents, :tags, :options, :input, :announce
)
on conflict do nothing
returning id

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
    state = case when offpath_job.state = 'blocked' then 'blocked' else new.value ->> 3 end,
    priority = new.value ->> 4,
    run_at = new.value ->> 5,
    deadline = new.value ->> 8,
    deadline_in = new.value ->> 9,
    fingerprint = new.value ->> 14,
    dependents = new.value ->> 15,
    tags = new.value ->> 16,
    options = new.value ->> 17,
    input = new.value ->> 18,
    announce = new.value ->> 19
from json_each(:batch) as new
where offpath_job.id = new.value ->> 0
returning id

-- name: job_undo
-- Takes back what the same transition has just inserted, so that a refusal leaves no trace.
delete from offpath_job where id in (select value from json_each(:ids))
returning id

-- name: group_ensure
-- Groups that are about to have more than their root get a row, counting the root if it is open.
insert into offpath_group (id, open)
select
    value ->> 0,
    coalesce(
        value ->> 1,
        exists (
            select 1 from offpath_job as root
            where
                root.id = value ->> 0
                and root.group_id = root.id
                and root.state in ('blocked', 'scheduled', 'ready', 'running')
        )
    )
from json_each(:groups)
where true
on conflict do nothing
returning id

-- name: group_change
-- Adds the open jobs of groups; the last write before COMMIT.
update offpath_group set
    open = open + (change.value ->> 1)
from json_each(:changes) as change
where offpath_group.id = change.value ->> 0
returning id, open

-- name: group_forget
-- Groups without a job need no row.
delete from offpath_group
where
    id in (select value from json_each(:groups))
    and not exists (select 1 from offpath_job as root where root.id = offpath_group.id)
    and not exists (
        select 1 from offpath_job as member
        where member.group_id = offpath_group.id and member.group_id <> member.id
    )
