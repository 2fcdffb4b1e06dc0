-- Actions: what operators asked for, who carries it out, and how it went.
--
-- Times are whole microseconds since 1970-01-01 UTC.

create table offpath_action (
    id text primary key,
    at integer not null
        constraint action_at_readable
        check (at between -62135596800000000 and 253402300799999999),
    actor text not null,
    via text not null,
    verb text not null,
    target text not null,
    options text not null,
    note text not null,
    state text not null default 'running'
        constraint action_state check (state in ('running', 'done', 'failed', 'stopped')),
    cursor text,
    changed integer not null default 0 constraint action_changed_readable check (changed between 0 and 4611686018427387903),
    unchanged integer not null default 0
        constraint action_unchanged_readable check (unchanged between 0 and 4611686018427387903),
    reasons text not null default '{}'
        constraint action_reasons_readable
        check (iif(json_valid(reasons), json_type(reasons) = 'object', 0)),
    error text,
    resumed integer not null default 0
        constraint action_resumed_readable check (resumed in (0, 1)),
    holder text not null,
    held_until integer not null
        constraint action_held_until_readable
        check (held_until between -62135596800000000 and 253402300799999999),
    finished_at integer
        constraint action_finished_at_readable
        check (finished_at between -62135596800000000 and 253402300799999999),
    constraint action_ended check ((state = 'running') = (finished_at is null))
) strict, without rowid;

-- The few that run, by whose holder's time is over first.
create index offpath_action_running on offpath_action (held_until) where state = 'running';
create index offpath_action_age on offpath_action (at) where state <> 'running';
