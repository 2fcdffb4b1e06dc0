-- Schedules, and what became of their occurrences.

create table offpath.schedule (
    name text collate "C" not null primary key,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    next_at timestamptz,
    last_at timestamptz,
    version bigint not null default 1,
    paused boolean not null default false,
    last_job uuid,
    -- The definition with its template, as JSON; only code that made it reads it.
    definition text not null,
    constraint schedule_version check (version >= 1)
);

create index schedule_due on offpath.schedule (next_at, name)
    where not paused and next_at is not null;

create table offpath.occurrence (
    schedule text collate "C" not null,
    at timestamptz not null,
    made_at timestamptz not null,
    outcome text not null,
    job uuid,
    primary key (schedule, at),
    constraint occurrence_outcome check (outcome in ('fired', 'skipped', 'missed', 'triggered'))
);

create index occurrence_made on offpath.occurrence (made_at);
