-- name: add_groups
-- Groups that are about to have more than their root get a row. It counts the root as it is, or
-- (second value) as it was when this transition began; it says what a root that has ended said.
insert into offpath_group (id, policy, open, done, failed, value)
select
    new.value ->> 0,
    new.value ->> 2,
    coalesce(new.value ->> 1, root.id is not null and root.finished_at is null),
    root.id is not null
    and (root.redrives > 0 or (new.value ->> 1 is null and root.finished_at is not null)),
    root.id is not null and new.value ->> 1 is null
    and (root.state = 'dead' or root.state = 'cancelled'),
    case when new.value ->> 1 is null then root.result end
from json_each(:batch) as new
left join offpath_job as root on root.id = new.value ->> 0 and root.group_id = root.id
where true
on conflict (id) do nothing
returning id

-- name: adopt_groups
-- A root that came after its members says what becomes of them.
update offpath_group set
    policy = 'fail_fast',
    closing = max(closing, failed > 0),
    to_close = max(to_close, failed > 0)
where id in (select value from json_each(:ids))

-- name: count_groups
-- Adds to the counts of groups: open jobs, failed ones; whether some joined, whether some were put
-- back, which ends the closing. The last write before COMMIT.
update offpath_group set
    open = open + (change.value ->> 1),
    -- A worker of the version before counts none that fails.
    failed = max(failed + (change.value ->> 2), 0),
    done = case when open + (change.value ->> 1) = 0 then min(done + 1, 2) else done end,
    closing = case
        when change.value ->> 4 then 0
        when change.value ->> 2 > 0 and policy = 'fail_fast' then 1
        else closing
    end,
    to_close = case
        when change.value ->> 4 or open + (change.value ->> 1) = 0 then 0
        when change.value ->> 2 > 0 and policy = 'fail_fast' then 1
        when change.value ->> 3 and closing then 1
        else to_close
    end
from json_each(:batch) as change
where offpath_group.id = change.value ->> 0
returning id, open, done, closing

-- name: lock_groups
-- The values of groups before they change. Nobody else writes meanwhile.
select id, value, final from offpath_group where id in (select value from json_each(:ids))

-- name: give_to_groups
-- What groups have made now.
update offpath_group set value = given.value ->> 1, final = given.value ->> 2
from json_each(:batch) as given
where offpath_group.id = given.value ->> 0 and final = 0

-- name: mark_groups
-- Groups are closing: their open members are to be cancelled.
update offpath_group set closing = 1, to_close = open > 0
where id in (select value from json_each(:ids))

-- name: groups_there
-- Which of these groups have a job.
select given.value from json_each(:ids) as given
where
    exists (
        select 1 from offpath_job as root
        where root.id = given.value and root.group_id = root.id
    )
    or exists (
        select 1 from offpath_job as member
        where member.group_id = given.value and member.group_id <> member.id
    )

-- name: restore_groups
-- nothing
-- A group's row goes with the last of its jobs, and not before.

-- name: join_roots
-- nothing
-- A root is counted by the row of its group as soon as that is there.

-- name: reopen_groups
-- Jobs of these groups that had ended are open again: whoever put them back wants them to run.
update offpath_group set
    open = open + (more.value ->> 'more'),
    -- A worker of the version before counts none that fails.
    failed = max(failed - (more.value ->> 'more'), 0),
    closing = 0,
    to_close = 0
from json_each(:batch) as more
where offpath_group.id = more.value ->> 'id'

-- name: drop_groups
-- A group goes with its last job.
delete from offpath_group
where
    id in (select value from json_each(:ids))
    and not exists (
        select 1 from offpath_job as root
        where root.id = offpath_group.id and root.group_id = root.id
    )
    and not exists (
        select 1 from offpath_job as member
        where member.group_id = offpath_group.id and member.group_id <> member.id
    )

-- name: open_members
-- Open jobs of these groups that nobody has asked to end.
select root.id
from json_each(:ids) as given
cross join offpath_job as root
where
    root.id = given.value and root.group_id = root.id
    and root.finished_at is null and root.cancel_requested = 0
union all
select member.id
from json_each(:ids) as given
cross join offpath_job as member
where
    member.group_id = given.value and member.group_id <> member.id
    and member.finished_at is null and member.cancel_requested = 0
limit :limit

-- name: members_to_close
-- As open_members, of the groups that are closing.
select root.id
from offpath_group as closing
cross join offpath_job as root
where
    closing.to_close = 1
    and root.id = closing.id and root.group_id = root.id
    and root.finished_at is null and root.cancel_requested = 0
union all
select member.id
from offpath_group as closing
cross join offpath_job as member
where
    closing.to_close = 1
    and member.group_id = closing.id and member.group_id <> member.id
    and member.finished_at is null and member.cancel_requested = 0
limit :limit
