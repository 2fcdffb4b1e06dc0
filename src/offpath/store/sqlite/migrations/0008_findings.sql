-- Findings: what is wrong with what is kept, since when, and who accepted it.
--
-- Times are whole microseconds since 1970-01-01 UTC.

create table offpath_finding (
    id text primary key,
    name text not null,
    text text not null,
    since integer not null,
    seen_at integer not null,
    accepted_at integer,
    reason text,
    -- Only of those that were accepted: they are kept for audits.
    ended_at integer,
    check ((accepted_at is null) = (reason is null))
) strict, without rowid;

-- Of each name one stands.
create unique index offpath_finding_standing on offpath_finding (name) where ended_at is null;
