-- Schedules, and what became of their occurrences.
--
-- Times are whole microseconds since 1970-01-01 UTC.

create table offpath_schedule (
    name text primary key,
    -- The definition with its template, as JSON; only code that made it reads it.
    definition text not null,
    paused integer not null default 0 check (paused = 0 or paused = 1),
    next_at integer,
    created_at integer not null,
    updated_at integer not null,
    version integer not null default 1 check (version >= 1),
    last_at integer,
    last_job text
) strict, without rowid;

create index offpath_schedule_due on offpath_schedule (next_at, name)
    where paused = 0 and next_at is not null;

create table offpath_occurrence (
    schedule text not null,
    at integer not null,
    outcome text not null check (
        outcome = 'fired' or outcome = 'skipped' or outcome = 'missed' or outcome = 'triggered'
    ),
    job text,
    made_at integer not null,
    primary key (schedule, at)
) strict, without rowid;

create index offpath_occurrence_made on offpath_occurrence (made_at);
