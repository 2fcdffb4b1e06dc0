-- name: enqueue
-- Adds jobs. Those whose id or unique key is taken are missing in the answer. What a job leaves at
-- its default is not sent, and what all have in common (group, parent, that gates watch them) is
-- sent once. A root whose group is there already is counted in it by whoever asked; with "alone" nobody
-- would, so it is left out. The answer says which roots are to be counted. (Not as jsonb, which
-- would make a numeric of each delay.) A conflict has one target at most, so none is named here, and
-- who asked looks which job each that is missing has met.
with clock as materialized (
    select
        coalesce(:now::text::timestamptz, clock_timestamp()) as now,
        exists (select from offpath.gate_watch w where w.early) as awaited,
        -- for the trigger of jobs with a limit: whether who asked adds their nudges up itself
        set_config('offpath_store.nudging', case when :together::boolean then 'together' end, true)
)
insert into offpath.job (
    id, state, task, queue, priority, enqueued_at, run_at, deadline, deadline_in, input,
    fingerprint, options, group_id, grouped, parent, dependents, tags, unique_key, unique_states,
    unique_until, unique_held, announce, gate, gated_by, gated_delay, blocked_until, reason, watched,
    limit_key, limit_spec, fair_key, headers
)
select
    b.id,
    case
        when b.gate is not null then 'blocked'
        when due.run_at > clock.now then 'scheduled'
        when b."limit" is null then 'ready'
        else 'blocked'
    end,
    b.task, coalesce(b.queue, 'default'), coalesce(b.priority, 0), clock.now, due.run_at,
    coalesce(
        b.deadline,
        case when b.gate is null then clock.now + b.deadline_in * interval '1 second' end
    ),
    b.deadline_in, b.input, b.fingerprint, coalesce(b.options, '{}'),
    nullif(kin.group_id, b.id::text),
    coalesce(kin.group_id <> b.id::text, false) or coalesce(b.counted, false) or late.root,
    kin.parent,
    b.dependents,
    b.tags,
    b."unique" ->> 'key',
    b."unique" -> 'states',
    clock.now + (b."unique" ->> 'period')::double precision * interval '1 second',
    coalesce(
        b."unique" -> 'states' @> case when b.gate is null then '"queued"' else '"blocked"' end::jsonb,
        false
    ),
    coalesce(b.announce, 0),
    b.gate,
    b.gate,
    case when b.gate is not null and b.run_at is null then coalesce(b.delay, 0) end,
    case
        when b.gate is not null
            then least(b.deadline, clock.now + b.gate_timeout * interval '1 second')
        when b."limit" is not null and due.run_at <= clock.now
            then coalesce(b.deadline, clock.now + b.deadline_in * interval '1 second')
    end,
    case
        when b.gate is not null then 'gate'
        when b."limit" is not null and due.run_at <= clock.now then 'limit'
    end,
    case
        when kin.watched then 1
        when clock.awaited
            and exists (select from offpath.gate_watch w where w.job = b.id and w.early)
            then 1
        else 0
    end,
    b."limit" ->> 'key',
    b."limit"::text,
    b.fair_key,
    b.headers
from clock
cross join json_to_recordset(:batch::text::json) as b (
    id uuid, task text, queue text, priority integer, delay double precision,
    run_at timestamptz, deadline timestamptz, deadline_in double precision, input text,
    fingerprint text, options text, group_id text, parent text, dependents jsonb, tags jsonb,
    "unique" jsonb, announce smallint, counted boolean, gate uuid, gate_timeout double precision,
    watched boolean, "limit" jsonb, fair_key text, headers text
)
cross join lateral (
    select coalesce(b.run_at, clock.now + coalesce(b.delay, 0) * interval '1 second') as run_at
) as due
cross join lateral (
    select
        coalesce(b.group_id, :group_id::text) as group_id,
        coalesce(b.parent, :parent::text) as parent,
        coalesce(b.watched, :watched::boolean) as watched
) as kin
cross join lateral (
    select coalesce(kin.group_id, b.id::text) = b.id::text
        and exists (select from offpath.job_group g where g.id = b.id::text) as root
) as late
where not (:alone::boolean and late.root)
on conflict do nothing
returning
    id::text, offpath.micros(run_at),
    (grouped and group_id is null)::int

-- name: enqueue_alike
-- As enqueue, for many jobs that leave at their default what enqueue_one does, and differ by id, input
-- and fingerprint alone. Those of the split texts are read in a third of the time that a document takes.
-- One row answers for all: when they are due, how many were added, which, unless that is all of them,
-- and which roots are to be counted.
with clock as materialized (
    select
        coalesce(:now::text::timestamptz, clock_timestamp()) as now,
        exists (select from offpath.gate_watch w where w.early) as awaited,
        exists (select from offpath.job_group) as grouped,
        string_to_array(:ids::text, ',')::uuid[] as ids
),
added as (
    insert into offpath.job (
        id, state, task, queue, priority, enqueued_at, run_at, input, fingerprint, options,
        group_id, grouped, parent, announce, watched, fair_key, headers
    )
    select
        b.id, 'ready', :task::text, :queue::text, :priority::text::integer, clock.now, clock.now,
        b.input, b.fingerprint, :options::text,
        case when own.root then null else :group_id::text end,
        not own.root or late.root,
        :parent::text,
        :announce::text::smallint,
        case
            when :watched::boolean then 1
            when clock.awaited
                and exists (select from offpath.gate_watch w where w.job = b.id and w.early)
                then 1
            else 0
        end,
        :fair_key::text, :headers::text
    from clock
    cross join unnest(
        clock.ids,
        string_to_array(:inputs::text, U&'\001F'),
        string_to_array(:fingerprints::text, U&'\001F')
    ) as b (id, input, fingerprint)
    cross join lateral (
        select :group_id::text is null or :group_id::text = b.id::text as root
    ) as own
    cross join lateral (
        select case
            when own.root and clock.grouped
                then exists (select from offpath.job_group g where g.id = b.id::text)
            else false
        end as root
    ) as late
    where not (:alone::boolean and late.root)
    on conflict do nothing
    returning id, run_at, grouped and group_id is null as rooted
)
select
    offpath.micros(max(a.run_at)),
    count(*)::int,
    case
        when count(*) < (select cardinality(clock.ids) from clock)
            then coalesce(array_to_string(array_agg(a.id), ','), '')
    end,
    array_to_string(array_agg(a.id) filter (where a.rooted), ',')
from added a

-- name: enqueue_one
-- As enqueue with "alone", for a single job that leaves nearly all at its default: the most frequent
-- one. Most of the server's work for one row is to get so large a statement ready, which this
-- spares.
insert into offpath.job (
    id, state, task, queue, priority, enqueued_at, run_at, input, fingerprint, options, parent,
    announce, watched, fair_key, headers
)
select
    :id::text::uuid, 'ready', :task, :queue, :priority::text::integer, clock.now, clock.now, :input,
    :fingerprint, :options, :parent, :announce::text::smallint,
    case
        when exists (select from offpath.gate_watch w where w.job = :id::text::uuid and w.early)
            then 1
        else 0
    end,
    :fair_key, :headers
from (select coalesce(:now::text::timestamptz, clock_timestamp()) as now) as clock
where not exists (select from offpath.job_group g where g.id = :id::text)
on conflict do nothing
returning offpath.micros(run_at)

-- name: same_ids
-- The jobs that have these ids already.
select j.id::text, j.fingerprint, offpath.micros(j.run_at)
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: holders
-- Who holds these unique keys, and whether its period is over.
select
    j.unique_key, j.id::text, j.fingerprint, j.state,
    offpath.micros(j.run_at),
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
    offpath.micros(j.run_at),
    case
        when j.unique_until <= coalesce(:now::text::timestamptz, clock_timestamp()) then 1
        else 0
    end
from offpath.job j
where j.unique_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    and j.unique_held
order by j.id
for update

-- name: free_holders
-- As lock_holders, for one who holds rows already. A holder that somebody else is writing is
-- answered as one that is not free (0): who waited for it could be waited for by its writer.
with free as materialized (
    select
        j.unique_key, j.id, j.fingerprint, j.state, j.run_at,
        j.unique_until <= coalesce(:now::text::timestamptz, clock_timestamp()) as over
    from offpath.job j
    where j.unique_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and j.unique_held
    order by j.id
    for update skip locked
)
select
    h.unique_key, h.id::text, coalesce(f.fingerprint, ''), coalesce(f.state, h.state),
    offpath.micros(coalesce(f.run_at, h.run_at)),
    case when f.over then 1 else 0 end,
    (f.id is not null)::int
from offpath.job h
left join free f on f.id = h.id
where h.unique_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    and h.unique_held

-- name: release_keys
-- Holders whose period is over lose their key.
update offpath.job j
set unique_held = false
where j.unique_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
    and j.unique_held
    and j.unique_until <= coalesce(:now::text::timestamptz, clock_timestamp())

-- name: replace_holders
-- Waiting holders take over the input, options and times of the job that replaces them. One that is
-- blocked keeps its place at its gate or its wait.
with clock as materialized (
    select coalesce(:now::text::timestamptz, clock_timestamp()) as now
)
update offpath.job j
set state = case
        when j.state = 'blocked' and j.reason in ('gate', 'signal') then 'blocked'
        when due.run_at > clock.now then 'scheduled'
        when b."limit" is null then 'ready'
        else 'blocked'
    end,
    reason = case
        when j.state = 'blocked' and j.reason in ('gate', 'signal') then j.reason
        when b."limit" is not null and due.run_at <= clock.now then 'limit'
    end,
    limit_key = b."limit" ->> 'key',
    limit_spec = b."limit"::text,
    fair_key = b.fair_key,
    headers = b.headers,
    sent_back = 0,
    blocked_until = case
        when j.state = 'blocked' and j.reason in ('gate', 'signal') then least(
            coalesce(b.deadline, clock.now + b.deadline_in * interval '1 second'),
            j.wait_until,
            (select g.deadline from offpath.job_gate g where g.id = j.gate)
        )
        when b."limit" is not null and due.run_at <= clock.now
            then coalesce(b.deadline, clock.now + b.deadline_in * interval '1 second')
    end,
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
    fingerprint text, options text, dependents jsonb, tags jsonb, announce smallint,
    "limit" jsonb, fair_key text, headers text
)
cross join lateral (
    select coalesce(b.run_at, clock.now + coalesce(b.delay, 0) * interval '1 second') as run_at
) as due
where j.id = b.id
returning j.id::text, offpath.micros(j.run_at)

-- name: withdraw
-- Takes back jobs that this transaction has added.
delete from offpath.job where id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))

-- name: lock_jobs
-- Keeps these jobs still, in one order, and says which of them are there.
select
    j.id::text,
    case j.state when 'succeeded' then 1 when 'dead' then -1 when 'cancelled' then -1 else 0 end
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
order by j.id
for update

-- name: lock_jobs_and_holders
-- Keeps these jobs still, and those that hold these unique keys, in one order.
select 1
from offpath.job j
where j.id = any (array(
    select jsonb_array_elements_text(:ids::text::jsonb)::uuid
    union
    select h.id
    from offpath.job h
    where h.unique_key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and h.unique_held
))
order by j.id
for update

-- name: watch_jobs
-- Gates watch these jobs from now on.
update offpath.job j
set watched = 1
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.watched <> 1

-- name: join_roots
-- The roots of these groups are counted from now on; says whether each is open (1), succeeded (0),
-- dead or cancelled (-1), with its result, and how often it was put back.
with held as materialized (
    select j.id
    from offpath.job j
    where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
        and not j.grouped
        and j.group_id is null
    order by j.id
    for update
)
update offpath.job j
set grouped = true
from held h
where j.id = h.id
returning
    j.id::text,
    case j.state when 'succeeded' then 0 when 'dead' then -1 when 'cancelled' then -1 else 1 end,
    j.result, j.redrives
