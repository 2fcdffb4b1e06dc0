-- name: lock_groups
-- Keeps these groups still, in one order, and says what their values are.
select g.id, g.value, g.final::int
from offpath.job_group g
where g.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))
order by g.id
for update

-- name: add_groups
-- More open jobs in these groups; those that are not there are made. A root that is not seen may be
-- on its way.
with batch as materialized (
    select
        b.*,
        case
            when b.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then b.id::uuid
        end as root
    from jsonb_to_recordset(:batch::text::jsonb) as b (
        id text, more bigint, failed bigint, policy text, closing boolean, value text, done boolean
    )
),
unseen as (
    insert into offpath.unseen (id)
    select b.root
    from batch b
    where b.root is not null
        and not exists (select from offpath.job_group g where g.id = b.id)
        and not exists (select from offpath.job r where r.id = b.root and r.grouped)
)
insert into offpath.job_group as g (id, open, failed, policy, closing, to_close, value, done_at)
select
    b.id, b.more, b.failed, coalesce(b.policy, 'settle_all'), coalesce(b.closing, false),
    coalesce(b.closing, false) and b.more > 0, b.value,
    case when b.done then coalesce(:now::text::timestamptz, clock_timestamp()) end
from batch b
order by b.id collate "C"
on conflict (id) do update
set open = g.open + excluded.open,
    failed = g.failed + excluded.failed,
    policy = case when excluded.policy = 'fail_fast' then 'fail_fast' else g.policy end,
    done_at = coalesce(g.done_at, excluded.done_at),
    value = coalesce(g.value, excluded.value),
    closing = g.closing or excluded.closing
        or (excluded.policy = 'fail_fast' and g.failed + excluded.failed > 0),
    to_close = (
        g.closing or excluded.closing
        or (excluded.policy = 'fail_fast' and g.failed + excluded.failed > 0)
    ) and g.open + excluded.open > 0

-- name: count_groups
-- Fewer open jobs in these groups, in one order, and what was given to their values; answers with
-- what is left, whether it is closing, and whether it is done for the first time: not after a root
-- that ended alone, not seeing the member that was added in the same moment.
with batch as materialized (
    select g.id, g.done_at, b.ended, b.failed, b.given, b.value, b.final, b.closing
    from jsonb_to_recordset(:batch::text::jsonb) as b (
        id text, ended bigint, failed bigint, given boolean, value text, final boolean,
        closing boolean
    )
    join offpath.job_group g on g.id = b.id
    order by g.id
    for update of g
)
update offpath.job_group g
set open = g.open - b.ended,
    failed = g.failed + b.failed,
    value = case when b.given and not g.final then b.value else g.value end,
    final = g.final or coalesce(b.final, false),
    closing = g.closing or coalesce(b.closing, false)
        or (g.policy = 'fail_fast' and b.failed > 0),
    to_close = g.open - b.ended > 0
        and (
            g.closing or coalesce(b.closing, false) or (g.policy = 'fail_fast' and b.failed > 0)
        ),
    done_at = case
        when g.open - b.ended = 0
            then coalesce(g.done_at, :now::text::timestamptz, clock_timestamp())
        else g.done_at
    end
from batch b
where g.id = b.id
returning g.id, g.open, g.closing::int, (
    g.open = 0
    and b.done_at is null
    and not exists (
        select from offpath.job r
        where r.id = case
                when g.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then g.id::uuid
            end
            and r.group_id is null
            and not r.grouped
            and r.finished_at is not null
    )
)::int

-- name: restore_groups
-- Rows for groups of these jobs that had lost theirs with their last open job, as it was before
-- these rows were kept.
insert into offpath.job_group (id, open, failed, done_at)
select
    lost.id, counts.open, counts.failed,
    coalesce(:now::text::timestamptz, clock_timestamp())
from (
    select distinct coalesce(j.group_id, j.id::text) as id
    from offpath.job j
    where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and j.grouped
) as lost
cross join lateral (
    select
        count(*) filter (where m.finished_at is null) as open,
        count(*) filter (where m.state in ('dead', 'cancelled')) as failed
    from offpath.job m
    where m.group_id = lost.id
        or m.id = case
            when lost.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then lost.id::uuid
        end
) as counts
where not exists (select from offpath.job_group g where g.id = lost.id)
order by lost.id
on conflict (id) do nothing

-- name: reopen_groups
-- Jobs of these groups that had ended are open again: whoever put them back wants them to run.
with batch as materialized (
    select g.id, b.more
    from jsonb_to_recordset(:batch::text::jsonb) as b (id text, more bigint)
    join offpath.job_group g on g.id = b.id
    order by g.id
    for update of g
)
update offpath.job_group g
set open = g.open + b.more,
    failed = greatest(g.failed - b.more, 0),
    closing = false,
    to_close = false
from batch b
where g.id = b.id

-- name: drop_groups
-- A group goes with its last job.
delete from offpath.job_group g
where g.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))
    and not exists (select from offpath.job j where j.group_id = g.id)
    and not exists (
        select from offpath.job j
        where j.id = case
                when g.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then g.id::uuid
            end
            and j.group_id is null  -- a member of another group may have this one's name
    )

-- name: open_members
-- Open jobs of these groups that nobody has asked to end.
select m.id::text
from (select jsonb_array_elements_text(:ids::text::jsonb) as id) as i
cross join lateral (
    select j.id
    from offpath.job j
    where j.group_id = i.id
        and j.state in ('blocked', 'scheduled', 'ready', 'running')
        and not j.cancel_requested
    union all
    select j.id
    from offpath.job j
    where j.id = case
            when i.id ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then i.id::uuid
        end
        and j.group_id is null
        and j.state in ('blocked', 'scheduled', 'ready', 'running')
        and not j.cancel_requested
) as m
limit :limit::int

-- name: members_to_close
-- As open_members, of the groups that are closing.
select m.id::text
from offpath.job_group g
cross join lateral (
    select j.id
    from offpath.job j
    where j.group_id = g.id
        and j.state in ('blocked', 'scheduled', 'ready', 'running')
        and not j.cancel_requested
    union all
    select j.id
    from offpath.job j
    where j.id = case
            when g.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then g.id::uuid
        end
        and j.group_id is null
        and j.state in ('blocked', 'scheduled', 'ready', 'running')
        and not j.cancel_requested
) as m
where g.to_close
limit :limit::int
