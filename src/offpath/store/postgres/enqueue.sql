-- name: enqueue
-- Adds jobs. Those whose id or unique key is taken are missing in the answer. What a job leaves at
-- its default is not sent.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
insert into offpath.job (
    id, state, task, queue, priority, enqueued_at, run_at, deadline, deadline_in, input,
    fingerprint, options, group_id, grouped, parent, dependents, tags, unique_key, unique_states,
    unique_until, unique_held, announce
)
select
    b.id,
    case when due.run_at <= clock.now then 'ready' else 'scheduled' end,
    b.task, coalesce(b.queue, 'default'), coalesce(b.priority, 0), clock.now, due.run_at,
    coalesce(b.deadline, clock.now + b.deadline_in * interval '1 second'),
    b.deadline_in, b.input, b.fingerprint, coalesce(b.options, '{}'),
    nullif(b.group_id, b.id::text),
    coalesce(b.group_id <> b.id::text, false),
    b.parent,
    b.dependents,
    b.tags,
    b."unique" ->> 'key',
    b."unique" -> 'states',
    clock.now + (b."unique" ->> 'period')::double precision * interval '1 second',
    coalesce(b."unique" -> 'states' @> '"queued"', false),
    coalesce(b.announce, 0)
from clock
cross join jsonb_to_recordset(:batch::text::jsonb) as b (
    id uuid, task text, queue text, priority integer, delay double precision,
    run_at timestamptz, deadline timestamptz, deadline_in double precision, input text,
    fingerprint text, options text, group_id text, parent text, dependents jsonb, tags jsonb,
    "unique" jsonb, announce smallint
)
cross join lateral (
    select coalesce(b.run_at, clock.now + coalesce(b.delay, 0) * interval '1 second') as run_at
) as due
on conflict do nothing
returning id::text, (extract(epoch from run_at) * 1000000)::bigint

-- name: same_ids
-- The jobs that have these ids already.
select j.id::text, j.fingerprint, (extract(epoch from j.run_at) * 1000000)::bigint
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: holders
-- Who holds these unique keys, and whether its period is over.
select
    j.unique_key, j.id::text, j.fingerprint, j.state,
    (extract(epoch from j.run_at) * 1000000)::bigint,
    case
        when j.unique_until <= coalesce(:now::text::timestamptz, clock_timestamp()) then 1
        else 0
    end
from offpath.job j
where j.unique_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    and j.unique_held

-- name: lock_holders
-- As holders, but they stay as they are until the end of this transaction.
select
    j.unique_key, j.id::text, j.fingerprint, j.state,
    (extract(epoch from j.run_at) * 1000000)::bigint,
    case
        when j.unique_until <= coalesce(:now::text::timestamptz, clock_timestamp()) then 1
        else 0
    end
from offpath.job j
where j.unique_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    and j.unique_held
order by j.id
for update

-- name: release_keys
-- Holders whose period is over lose their key.
update offpath.job j
set unique_held = false
where j.unique_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    and j.unique_held
    and j.unique_until <= coalesce(:now::text::timestamptz, clock_timestamp())

-- name: replace_holders
-- Waiting holders take over the input, options and times of the job that replaces them.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = case when due.run_at <= clock.now then 'ready' else 'scheduled' end,
    task = b.task,
    queue = coalesce(b.queue, 'default'),
    priority = coalesce(b.priority, 0),
    run_at = due.run_at,
    deadline = coalesce(b.deadline, clock.now + b.deadline_in * interval '1 second'),
    deadline_in = b.deadline_in,
    input = b.input,
    fingerprint = b.fingerprint,
    options = coalesce(b.options, '{}'),
    dependents = b.dependents,
    tags = b.tags,
    announce = coalesce(b.announce, 0),
    -- Null already, but a row that changed since the statement began is first made of its old version
    worker = null,
    finished_at = null,
    expires_at = null
from clock
cross join jsonb_to_recordset(:batch::text::jsonb) as b (
    id uuid, task text, queue text, priority integer, delay double precision,
    run_at timestamptz, deadline timestamptz, deadline_in double precision, input text,
    fingerprint text, options text, dependents jsonb, tags jsonb, announce smallint
)
cross join lateral (
    select coalesce(b.run_at, clock.now + coalesce(b.delay, 0) * interval '1 second') as run_at
) as due
where j.id = b.id
returning j.id::text, (extract(epoch from j.run_at) * 1000000)::bigint

-- name: withdraw
-- Takes back jobs that this transaction has added.
delete from offpath.job where id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: join_roots
-- The roots of these groups are counted from now on; says which of them are open.
update offpath.job j
set grouped = true
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and not j.grouped
    and j.group_id is null
returning j.id::text, case when j.state in ('succeeded', 'dead', 'cancelled') then 0 else 1 end

-- name: count_up
-- More open jobs in these groups.
insert into offpath.job_group as g (id, open)
select b.id, b.open
from jsonb_to_recordset(:batch::text::jsonb) as b (id text, open bigint)
order by b.id
on conflict (id) do update set open = g.open + excluded.open
