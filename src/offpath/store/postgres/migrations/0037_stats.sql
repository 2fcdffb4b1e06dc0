-- Stats: what happened in spans of time. Times are whole seconds since 1970-01-01 UTC.

create table offpath.stat (
    at bigint not null,
    step integer not null,
    source text collate "C" not null,
    body text not null,
    primary key (step, at, source),
    constraint stat_step check (step in (10, 60, 3600)),
    constraint stat_readable check (
        at between -62135596800 and 253402300799 and jsonb_typeof(body::jsonb) = 'object'
    )
);
