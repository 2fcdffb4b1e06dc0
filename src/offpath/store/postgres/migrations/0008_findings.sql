-- Findings: what is wrong with what is kept, since when, and who accepted it.

create table offpath.finding (
    since timestamptz not null,
    seen_at timestamptz not null,
    accepted_at timestamptz,
    -- Only of those that were accepted: they are kept for audits.
    ended_at timestamptz,
    id text collate "C" not null primary key,
    name text collate "C" not null,
    text text not null,
    reason text,
    constraint finding_accepted check ((accepted_at is null) = (reason is null))
);

-- Of each name one stands.
create unique index finding_standing on offpath.finding (name) where ended_at is null;
