-- Jobs, their failures and groups, workers and claims.

-- One row per job. Inside, "queued" is kept as scheduled (due later) and ready, so that handing
-- out work never walks over work that is not due.
create table offpath.job (
    id uuid not null primary key,
    enqueued_at timestamptz not null,
    run_at timestamptz not null,
    deadline timestamptz,
    deadline_in double precision,
    started_at timestamptz,
    finished_at timestamptz,
    expires_at timestamptz,
    unique_until timestamptz,
    attempt bigint not null default 1,
    deliveries bigint not null default 0,
    losses bigint not null default 0,
    redrives bigint not null default 0,
    priority integer not null default 0,
    cancel_requested boolean not null default false,
    -- Whether a row in job_group counts this job. A lone job is its own group and has none.
    grouped boolean not null default false,
    -- Whether this job has its unique key now.
    unique_held boolean not null default false,
    state text not null,
    queue text not null,
    task text not null,
    -- The group's id; null when it is the job's own.
    group_id text,
    parent text,
    worker text,
    unique_key text,
    unique_states jsonb,
    input text not null,
    fingerprint text not null,
    options text not null,
    dependents jsonb,
    tags jsonb,
    result text,
    reason text,
    progress text,
    constraint job_state check (
        state in ('blocked', 'scheduled', 'ready', 'running', 'succeeded', 'dead', 'cancelled')
    ),
    constraint job_counters check (
        attempt >= 1 and deliveries >= 0 and losses >= 0 and redrives >= 0
    ),
    constraint job_holder check ((state = 'running') = (worker is not null)),
    constraint job_finished check (
        (state in ('succeeded', 'dead', 'cancelled')) = (finished_at is not null)
    ),
    constraint job_expiry check (expires_at is null or finished_at is not null),
    constraint job_unique_scope check (
        (unique_key is null) = (unique_states is null) and (unique_key is not null or not unique_held)
    )
)
-- Every transition rewrites its row: room on the page for the next version, and a vacuum that
-- starts long before a fifth of a big table is dead.
with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

create index job_ready on offpath.job (queue, task, priority desc, run_at, id)
    where state = 'ready';
create index job_scheduled on offpath.job (run_at) where state = 'scheduled';
create index job_running on offpath.job (worker) where state = 'running';
create index job_dead on offpath.job (id) where state = 'dead';
create index job_expiring on offpath.job (expires_at) where expires_at is not null;
create index job_members on offpath.job (group_id) where group_id is not null;
create index job_children on offpath.job (parent) where parent is not null;
create unique index job_unique on offpath.job (unique_key) where unique_held;

create table offpath.failure (
    job uuid not null,
    delivery bigint not null,
    attempt bigint not null,
    at timestamptz not null,
    kind text not null,
    type text not null,
    message text not null,
    traceback text,
    primary key (job, delivery)
);

-- Open members of each group that has more than its root. The row goes with the last of them.
create table offpath.job_group (
    id text not null primary key,
    open bigint not null constraint job_group_open check (open >= 0)
)
with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create table offpath.worker (
    id text not null primary key,
    host text not null,
    pid bigint not null,
    version text not null,
    concurrency bigint not null,
    tasks jsonb not null,
    queues jsonb not null,
    started_at timestamptz not null,
    seen_at timestamptz not null,
    expires_at timestamptz not null,
    -- The advisory lock that shows that it lives; null when it could not take one.
    presence bigint,
    missing_since timestamptz
)
with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create table offpath.claim (
    key text not null primary key,
    holder text not null,
    free_at timestamptz
);

create index claim_free on offpath.claim (free_at) where free_at is not null;

-- Whether a job that comes into a public state may have its unique key.
create function offpath.may_hold(
    job uuid, key text, scope jsonb, until timestamptz, state text, now timestamptz
) returns boolean
language sql stable
as $$
    select scope @> to_jsonb(state)
        and (until is null or until > now)
        and not exists (
            select from offpath.job o where o.unique_key = key and o.unique_held and o.id <> job
        )
$$;

-- A time-ordered id (UUID version 7).
create function offpath.new_id() returns uuid
language sql volatile
as $$
    select encode(
        set_bit(
            set_bit(
                overlay(
                    uuid_send(gen_random_uuid())
                    placing substring(
                        int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3
                    )
                    from 1 for 6
                ),
                52, 1
            ),
            53, 1
        ),
        'hex'
    )::uuid
$$;

-- The door for triggers, psql and other languages: adds a job in the caller's transaction.
--
-- "input" is an object of the task's arguments by name. With "unique_key" the id of the waiting or
-- running job that has the key is returned, if there is one, and nothing is added.
create function offpath.enqueue(
    task text,
    input jsonb default '{}',
    queue text default 'default',
    priority integer default 0,
    delay interval default '0',
    run_at timestamptz default null,
    unique_key text default null,
    tags jsonb default null
) returns uuid
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    new_job uuid := offpath.new_id();
    added uuid;
    moment timestamptz := clock_timestamp();
    due timestamptz := coalesce(enqueue.run_at, moment + coalesce(enqueue.delay, interval '0'));
    full_key text := enqueue.task || ':' || enqueue.unique_key;
begin
    if coalesce(enqueue.task, '') = '' then
        raise exception 'offpath.enqueue: task must be given' using errcode = '22023';
    end if;
    if jsonb_typeof(enqueue.input) is distinct from 'object' then
        raise exception 'offpath.enqueue: input must be a JSON object of arguments by name'
            using errcode = '22023';
    end if;
    for round in 1..10 loop
        insert into offpath.job (
            id, state, task, queue, priority, enqueued_at, run_at, input, fingerprint, options,
            tags, unique_key, unique_states, unique_held
        )
        values (
            new_job,
            case when due <= moment then 'ready' else 'scheduled' end,
            enqueue.task, coalesce(enqueue.queue, 'default'), coalesce(enqueue.priority, 0),
            moment, due, enqueue.input::text, '', '{}', enqueue.tags, full_key,
            case when full_key is not null then '["blocked", "queued", "running"]'::jsonb end,
            full_key is not null
        )
        on conflict do nothing
        returning id into added;
        if added is not null then
            return added;
        end if;
        update offpath.job j set unique_held = false
        where j.unique_key = full_key and j.unique_held and j.unique_until <= moment;
        if not found then
            select j.id into added from offpath.job j
            where j.unique_key = full_key and j.unique_held;
            if added is not null then
                return added;
            end if;
        end if;
    end loop;
    raise exception 'offpath.enqueue: the unique key changes hands too fast; try again'
        using errcode = '40001';
end
$$;
