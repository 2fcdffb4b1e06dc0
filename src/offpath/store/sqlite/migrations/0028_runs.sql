-- Runs: passes of sweeps that found something, and settlement runs. Times are whole seconds since
-- 1970-01-01 UTC.

create table offpath_run (
    id text primary key,
    kind text not null constraint run_kind check (kind = 'sweep' or kind = 'settlement'),
    name text not null,
    at integer not null
        constraint run_at_readable check (at between -62135596800 and 253402300799),
    body text not null
        constraint run_body_readable
        check (iif(json_valid(body), json_type(body) = 'object', 0))
) strict, without rowid;

create index offpath_run_name on offpath_run (kind, name, id);
