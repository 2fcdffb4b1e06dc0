-- The core: jobs, their failures and groups, workers, claims.
--
-- Times are whole microseconds since 1970-01-01 UTC. `queued` is kept as `scheduled` (not due) and
-- `ready` (due), so that no lease walks past jobs of the future.

create table offpath_job (
    seq integer primary key,
    id text not null unique,
    task text not null,
    queue text not null,
    -- `or` and not `in`: SQLite builds the list of an `in` anew for each row it checks.
    state text not null check (
        state = 'ready' or state = 'running' or state = 'succeeded' or state = 'scheduled'
        or state = 'dead' or state = 'cancelled' or state = 'blocked'
    ),
    priority integer not null,
    run_at integer not null,
    enqueued_at integer not null,
    attempt integer not null default 1 check (attempt >= 1),
    deliveries integer not null default 0 check (deliveries >= 0),
    losses integer not null default 0 check (losses >= 0),
    redrives integer not null default 0 check (redrives >= 0),
    cancel_requested integer not null default 0 check (cancel_requested in (0, 1)),
    worker text check ((worker is not null) = (state = 'running')),
    group_id text not null,
    parent text,
    started_at integer,
    finished_at integer check (
        (finished_at is not null)
        = (state = 'succeeded' or state = 'dead' or state = 'cancelled')
    ),
    expires_at integer check (expires_at is null or finished_at is not null),
    deadline integer,
    deadline_in integer,
    -- The key as asked for; the slot is the key while it is held.
    unique_key text,
    unique_slot text check (unique_slot is null or unique_slot = unique_key),
    unique_states text check ((unique_states is not null) = (unique_key is not null)),
    unique_until integer,
    fingerprint text not null,
    reason text,
    dependents text,
    tags text,
    options text not null,
    progress text,
    input text not null,
    result text
) strict;

create index offpath_job_ready on offpath_job (queue, task, priority desc, run_at, id)
where state = 'ready';

create index offpath_job_scheduled on offpath_job (queue, task, run_at)
where state = 'scheduled';

create index offpath_job_running on offpath_job (worker)
where state = 'running';

create index offpath_job_expiry on offpath_job (expires_at)
where expires_at is not null;

create index offpath_job_dead on offpath_job (id)
where state = 'dead';

create index offpath_job_member on offpath_job (group_id)
where group_id <> id;

create unique index offpath_job_slot on offpath_job (unique_slot)
where unique_slot is not null;

-- Running jobs that had to give up their unique key and may want it back.
create index offpath_job_keyless on offpath_job (seq)
where state = 'running' and unique_key is not null and unique_slot is null;

create table offpath_failure (
    seq integer primary key,
    job integer not null,
    type text not null,
    failure text not null
) strict;

create index offpath_failure_job on offpath_failure (job, seq);

-- Only groups of more than their root have a row.
create table offpath_group (
    id text primary key,
    open integer not null check (open >= 0)
) strict, without rowid;

create table offpath_worker (
    id text primary key,
    info text not null,
    started_at integer not null,
    seen_at integer not null,
    expires_at integer not null,
    presence integer not null check (presence in (0, 1))
) strict, without rowid;

create table offpath_claim (
    key text primary key,
    holder text not null,
    expires_at integer
) strict, without rowid;

create index offpath_claim_expiry on offpath_claim (expires_at)
where expires_at is not null;
