-- Workflows: what groups make, gates, durable steps, signals.

alter table offpath.job
    -- The gate that holds this job; null once it is released.
    add column gate uuid,
    -- The gate that it was made for: a gate goes with the last of these.
    add column gated_by uuid,
    -- Its delay in seconds, to count from its release.
    add column gated_delay double precision,
    -- 0: no gate watches this job. 1: its end is still to be counted. 2: it was counted. A worker of
    -- the release before counts nothing and leaves 1 behind, which is how it is found.
    add column watched smallint not null default 0,
    -- The signal that it waits for.
    add column wait_target text,
    add column wait_event text,
    add column wait_since timestamptz,
    add column wait_until timestamptz,
    -- When a blocked job is up whatever it waits for: its own deadline, its gate's or its wait's end.
    add column blocked_until timestamptz,
    add column has_undo boolean not null default false;

create index job_blocked_until on offpath.job (blocked_until)
    where state = 'blocked' and blocked_until is not null;
create index job_gated on offpath.job (gated_by) where gated_by is not null;
create index job_waiting on offpath.job (wait_target, wait_event, wait_since)
    where state = 'blocked' and reason = 'signal';
create index job_uncounted on offpath.job (id) where watched = 1 and finished_at is not null;
create index job_undoing on offpath.job (id) where has_undo and finished_at is not null;

-- A group's row now stays until its last job is gone.
alter table offpath.job_group
    add column failed bigint not null default 0,
    add column policy text not null default 'settle_all',
    add column closing boolean not null default false,
    -- Closing and not yet done. A column of its own: an index on "open" would touch the index with
    -- every count.
    add column to_close boolean not null default false,
    add column value text,
    add column final boolean not null default false,
    -- When it was done for the first time.
    add column done_at timestamptz,
    add constraint job_group_failed check (failed >= 0),
    add constraint job_group_policy check (policy in ('settle_all', 'fail_fast'));

create index job_group_to_close on offpath.job_group (id) where to_close;

-- A worker of the release before removes a group with its last open job: not while it has jobs.
create function offpath.keep_group() returns trigger
language plpgsql volatile
as $$
begin
    if exists (select from offpath.job j where j.group_id = old.id)
        or exists (
            select from offpath.job j
            where j.id = case
                    when old.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then old.id::uuid
                end
                and j.group_id is null
        )
    then
        return null;
    end if;
    return old;
end
$$;

create table offpath.job_gate (
    id uuid not null primary key,
    deadline timestamptz,
    need bigint not null,
    total bigint not null,
    succeeded bigint not null default 0,
    failed bigint not null default 0,
    -- Whether jobs that it held could not be released or ended at once.
    behind boolean not null default false,
    counting text not null,
    state text not null default 'open',
    constraint job_gate_counts check (
        need >= 0 and succeeded >= 0 and failed >= 0 and succeeded + failed <= total
    ),
    constraint job_gate_counting check (counting in ('succeeded', 'settled')),
    constraint job_gate_state check (state in ('open', 'fired', 'unsatisfiable', 'timed_out'))
)
with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create index job_gate_behind on offpath.job_gate (id) where behind;

-- Which jobs a gate watches, and what each was counted as.
create table offpath.gate_watch (
    job uuid not null,
    gate uuid not null,
    n bigint not null,
    -- The job was not there when the gate was made; whoever adds it looks here.
    early boolean not null default false,
    outcome text,
    primary key (job, gate),
    constraint gate_watch_outcome check (outcome in ('succeeded', 'failed'))
)
with (fillfactor = 70);

create index gate_watch_gate on offpath.gate_watch (gate, n);
create index gate_watch_early on offpath.gate_watch (job) where early;

-- Recorded steps, and what undoes them.
create table offpath.step (
    job uuid not null,
    kind text not null,
    name text not null,
    position bigint not null generated always as identity,
    result text,
    primary key (job, kind, name),
    constraint step_kind check (kind in ('step', 'undo'))
);

-- Signals that wait to be taken. Taken ones stay until their time is over, to be known by id.
create table offpath.signal (
    id uuid not null primary key,
    position bigint not null generated always as identity,
    sent_at timestamptz not null,
    expires_at timestamptz not null,
    taken_at timestamptz,
    -- Whether the job that waited for it could not be woken at once.
    missed boolean not null default false,
    target text not null,
    event text not null,
    payload text not null
)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

create index signal_open on offpath.signal (target, event, position) where taken_at is null;
create index signal_expiring on offpath.signal (expires_at);
create index signal_missed on offpath.signal (id) where missed;

create trigger keep_group before delete on offpath.job_group
    for each row execute function offpath.keep_group();

-- Ids that were looked for in vain: a gate watches a job of that id, or a group has its name. Whoever
-- was adding the job in that very moment did not see the gate or the group either, so these are
-- looked for again until everybody has ended who was at work ("since" is the first transaction
-- that can have seen them; 0: not looked at yet).
create table offpath.unseen (
    n bigint generated always as identity primary key,
    id uuid not null,
    since bigint not null default 0
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- A job that was woken for a signal and ends without having taken it leaves it to the next.
create function offpath.leave_signal() returns trigger
language plpgsql volatile
as $$
begin
    update offpath.signal s
    set missed = true
    where s.id = (
            select o.id
            from offpath.signal o
            where o.target = old.wait_target
                and o.event = old.wait_event
                and o.taken_at is null
            order by o.position
            limit 1
        )
        and exists (
            select from offpath.job j
            where j.state = 'blocked'
                and j.reason = 'signal'
                and j.wait_target = old.wait_target
                and j.wait_event = old.wait_event
        );
    return null;
end
$$;

create trigger signal_left after update of state on offpath.job
    for each row when (
        old.wait_target is not null
        and old.reason is distinct from 'signal'
        and old.finished_at is null
        and new.finished_at is not null
    )
    execute function offpath.leave_signal();
