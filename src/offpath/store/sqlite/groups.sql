-- name: group_ensure
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
from json_each(:groups) as new
left join offpath_job as root on root.id = new.value ->> 0 and root.group_id = root.id
where true
on conflict (id) do nothing
returning id

-- name: group_adopt
-- A root that came after its members says what becomes of them.
update offpath_group set
    policy = 'fail_fast',
    closing = max(closing, failed > 0),
    to_close = max(to_close, failed > 0)
where id in (select value from json_each(:groups))

-- name: group_change
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
        when change.value ->> 4 then 0
        when change.value ->> 2 > 0 and policy = 'fail_fast' then 1
        when change.value ->> 3 and closing then 1
        else to_close
    end
from json_each(:changes) as change
where offpath_group.id = change.value ->> 0
returning id, open, done, closing

-- name: group_values
-- The values of groups before they change.
select id, value, final from offpath_group where id in (select value from json_each(:groups))

-- name: group_give
-- What groups have made now.
update offpath_group set value = given.value ->> 1, final = given.value ->> 2
from json_each(:values) as given
where offpath_group.id = given.value ->> 0 and final = 0

-- name: group_mark
-- Groups are closing: their open members are to be cancelled.
update offpath_group set closing = 1, to_close = 1
where id in (select value from json_each(:groups))

-- name: group_closed
-- Groups of which every open member was told; one that joins later says so.
update offpath_group set to_close = 0
where id in (select value from json_each(:groups)) and to_close = 1

-- name: groups_to_close
select id from offpath_group where to_close = 1 order by id limit :limit

-- name: group_alone
-- Which of these groups are there.
select given.value from json_each(:groups) as given
where
    exists (
        select 1 from offpath_job as root
        where root.id = given.value and root.group_id = root.id
    )
    or exists (
        select 1 from offpath_job as member
        where member.group_id = given.value and member.group_id <> member.id
    )

-- name: group_untold
-- Open members of groups that nobody has asked to end.
select root.id
from json_each(:groups) as given
cross join offpath_job as root
where
    root.id = given.value and root.group_id = root.id
    and root.finished_at is null and root.cancel_requested = 0
union all
select member.id
from json_each(:groups) as given
cross join offpath_job as member
where
    member.group_id = given.value and member.group_id <> member.id
    and member.finished_at is null and member.cancel_requested = 0
limit :limit

-- name: group_forget
-- Groups without a job need no row.
delete from offpath_group
where
    id in (select value from json_each(:groups))
    and not exists (
        select 1 from offpath_job as root
        where root.id = offpath_group.id and root.group_id = root.id
    )
    and not exists (
        select 1 from offpath_job as member
        where member.group_id = offpath_group.id and member.group_id <> member.id
    )
