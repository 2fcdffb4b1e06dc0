-- Actions: what operators asked for, who carries it out, and how it went.

create table offpath.action (
    at timestamptz not null,
    held_until timestamptz not null,
    finished_at timestamptz,
    changed bigint not null default 0,
    unchanged bigint not null default 0,
    resumed boolean not null default false,
    id text collate "C" not null primary key,
    actor text collate "C" not null,
    via text collate "C" not null,
    verb text collate "C" not null,
    state text collate "C" not null default 'running',
    holder text collate "C" not null,
    cursor text collate "C",
    target text not null,
    options text not null,
    note text not null,
    reasons text not null default '{}',
    error text,
    constraint action_state check (state in ('running', 'done', 'failed', 'stopped')),
    constraint action_ended check ((state = 'running') = (finished_at is null)),
    constraint action_counts check (changed >= 0 and unchanged >= 0),
    constraint action_readable check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
        and held_until >= '0001-01-01 00:00:00+00' and held_until < '10000-01-01 00:00:00+00'
        and (
            finished_at is null
            or finished_at >= '0001-01-01 00:00:00+00' and finished_at < '10000-01-01 00:00:00+00'
        )
        and jsonb_typeof(reasons::jsonb) = 'object'
    )
);

-- The few that run, by whose holder's time is over first.
create index action_running on offpath.action (held_until) where state = 'running';
create index action_age on offpath.action (at) where state <> 'running';
