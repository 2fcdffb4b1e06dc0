-- Runs: passes of sweeps that found something, and settlement runs. Times are whole seconds since
-- 1970-01-01 UTC.

create table offpath.run (
    at bigint not null,
    id text collate "C" primary key,
    kind text collate "C" not null,
    name text collate "C" not null,
    body text not null,
    constraint run_kind check (kind in ('sweep', 'settlement')),
    constraint run_readable check (
        at between -62135596800 and 253402300799 and jsonb_typeof(body::jsonb) = 'object'
    )
);

create index run_name on offpath.run (kind, name, id);
