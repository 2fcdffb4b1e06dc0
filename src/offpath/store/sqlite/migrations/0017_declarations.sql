-- Definitions that the code of live processes declares: of several of one name the newest holds.
--
-- Times are whole microseconds since 1970-01-01 UTC.

create table offpath_declaration (
    kind text not null,
    name text not null,
    fingerprint text not null,
    first_seen integer not null
        constraint declaration_first_seen_readable
        check (first_seen between -62135596800000000 and 253402300799999999),
    last_seen integer not null
        constraint declaration_last_seen_readable
        check (last_seen between -62135596800000000 and 253402300799999999),
    primary key (kind, name, fingerprint)
) strict, without rowid;
