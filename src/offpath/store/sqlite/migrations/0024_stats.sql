-- Stats: what happened in spans of time. Times are whole seconds since 1970-01-01 UTC.

create table offpath_stat (
    step integer not null constraint stat_step check (step in (10, 60, 3600)),
    at integer not null
        constraint stat_at_readable check (at between -62135596800 and 253402300799),
    source text not null,
    body text not null
        constraint stat_body_readable
        check (iif(json_valid(body), json_type(body) = 'object', 0)),
    primary key (step, at, source)
) strict, without rowid;
