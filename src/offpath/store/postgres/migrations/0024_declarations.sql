-- Definitions that the code of live processes declares: of several of one name the newest holds.

create table offpath.declaration (
    first_seen timestamptz not null,
    last_seen timestamptz not null,
    kind text collate "C" not null,
    name text collate "C" not null,
    fingerprint text collate "C" not null,
    primary key (kind, name, fingerprint),
    constraint declaration_readable check (
        first_seen >= '0001-01-01 00:00:00+00' and first_seen < '10000-01-01 00:00:00+00'
        and last_seen >= '0001-01-01 00:00:00+00' and last_seen < '10000-01-01 00:00:00+00'
    )
);
