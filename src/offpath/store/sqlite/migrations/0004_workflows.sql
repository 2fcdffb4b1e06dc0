-- Workflows: what groups make, gates, durable steps, signals.
--
-- Times are whole microseconds since 1970-01-01 UTC.

-- The gate that holds this job, or held it: a gate goes with the last of these.
alter table offpath_job add column gate text;

-- Whether that gate has let it go.
alter table offpath_job add column gate_left integer not null default 0;

-- Its delay, to count from its release.
alter table offpath_job add column gated_delay integer;

-- 0: no gate watches this job. 1: its end is still to be counted. 2: it was counted. A worker of
-- the version before counts nothing and leaves 1 behind, which is how it is found.
alter table offpath_job add column watched integer not null default 0;

-- The signal that it waits for, and since when.
alter table offpath_job add column wait_target text;

alter table offpath_job add column wait_event text;

alter table offpath_job add column wait_since integer;

-- When a blocked job is up whatever it waits for: its own deadline, its gate's or its wait's end.
alter table offpath_job add column blocked_until integer;

alter table offpath_job add column has_undo integer not null default 0;

-- None of these names the state: a lease or a settle would weigh each of them for every job.
create index offpath_job_blocked_until on offpath_job (blocked_until)
where blocked_until is not null;

create index offpath_job_gated on offpath_job (gate)
where gate is not null;

create index offpath_job_waiting on offpath_job (wait_target, wait_event, wait_since)
where wait_target is not null;

create index offpath_job_uncounted on offpath_job (seq)
where watched = 1 and finished_at is not null;

create index offpath_job_undoing on offpath_job (id)
where has_undo = 1 and finished_at is not null;

alter table offpath_group add column failed integer not null default 0 check (failed >= 0);

alter table offpath_group add column policy text not null default 'settle_all' check (
    policy = 'settle_all' or policy = 'fail_fast'
);

-- How often it had no open member any more, up to 2: it is told the first time only.
alter table offpath_group add column done integer not null default 0;

alter table offpath_group add column closing integer not null default 0;

-- Closing, and there may be a member that was not told. An index on `open` would be touched by
-- every count.
alter table offpath_group add column to_close integer not null default 0;

alter table offpath_group add column final integer not null default 0;

alter table offpath_group add column value text;

create index offpath_group_to_close on offpath_group (id)
where to_close = 1;

-- Members that a worker of the version before adds to a group that is closing.
create trigger offpath_group_joined after update of open on offpath_group
when new.closing = 1 and new.to_close = 0 and new.open > old.open
begin
    update offpath_group set to_close = 1 where id = new.id;
end;

-- What the groups of before would have counted and made.
update offpath_group set
    done = open = 0,
    value = (
        select root.result from offpath_job as root
        where root.id = offpath_group.id and root.group_id = root.id and root.state = 'succeeded'
    ),
    failed = (
        select count(*) from offpath_job as root
        where
            root.id = offpath_group.id and root.group_id = root.id
            and (root.state = 'dead' or root.state = 'cancelled')
    ) + (
        select count(*) from offpath_job as member
        where
            member.group_id = offpath_group.id and member.group_id <> member.id
            and (member.state = 'dead' or member.state = 'cancelled')
    );

create table offpath_job_gate (
    id text primary key,
    need integer not null check (need >= 0),
    counting text not null check (counting = 'succeeded' or counting = 'settled'),
    total integer not null,
    succeeded integer not null default 0 check (succeeded >= 0),
    failed integer not null default 0 check (failed >= 0),
    state text not null default 'open' check (
        state = 'open' or state = 'fired' or state = 'unsatisfiable' or state = 'timed_out'
    ),
    deadline integer,
    check (succeeded + failed <= total)
) strict, without rowid;

create index offpath_job_gate_due on offpath_job_gate (deadline)
where state = 'open' and deadline is not null;

-- Which jobs a gate watches, and what each was counted as.
create table offpath_gate_watch (
    job text not null,
    gate text not null,
    place integer not null,
    -- The job was not there when the gate was made.
    early integer not null default 0,
    outcome text check (outcome = 'succeeded' or outcome = 'failed'),
    primary key (job, gate)
) strict, without rowid;

create index offpath_gate_watch_gate on offpath_gate_watch (gate, place);

create index offpath_gate_watch_early on offpath_gate_watch (job)
where early = 1;

create trigger offpath_job_awaited after insert on offpath_job
when exists (
    select 1 from offpath_gate_watch as early where early.early = 1 and early.job = new.id
)
begin
    update offpath_job set watched = 1 where seq = new.seq;
end;

-- Recorded steps, and what undoes them.
create table offpath_step (
    position integer primary key,
    job text not null,
    kind text not null check (kind = 'step' or kind = 'undo'),
    name text not null,
    result text,
    unique (job, kind, name)
) strict;

-- Signals. Taken ones stay until their time is over, to be known by id.
create table offpath_signal (
    position integer primary key,
    id text not null unique,
    target text not null,
    event text not null,
    payload text not null,
    sent_at integer not null,
    expires_at integer not null,
    taken_at integer
) strict;

create index offpath_signal_open on offpath_signal (target, event, position)
where taken_at is null;

create index offpath_signal_expiring on offpath_signal (expires_at);
