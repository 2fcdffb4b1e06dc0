-- Trims remove postings that a signed archive has; of each chain the link stays from which it goes on.
--
-- A row's own rules keep what no program may break: a link goes only behind a trim's boundary, never
-- the last one of its account up to there, and never from the middle of a chain.

create table offpath.ledger_trim (
    number bigint not null primary key,
    -- The boundary: the last posting that the checkpoint covers.
    posting bigint not null,
    -- The time of that posting, and the time of the trim's begin.
    until bigint not null,
    at bigint not null,
    -- The last posting that was looked at.
    done bigint not null default 0,
    postings bigint not null default 0,
    links bigint not null default 0,
    checkpoint text collate "C" not null,
    file text not null,
    archive text not null,
    kept text not null,
    kid text not null,
    signature text not null,
    constraint ledger_trim_posting check (posting > 0),
    constraint ledger_trim_done check (done between 0 and posting)
);

create table offpath.ledger_retired (
    trim bigint not null,
    id text collate "C" not null primary key,
    -- The whole posting as JSON, where a row that was open named it.
    posting text
);

create index ledger_retired_kept on offpath.ledger_retired (trim, id) where posting is not null;

-- A posting with its links as JSON.
create function offpath.ledger_posting_text(name text) returns text
language sql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select json_build_object(
        'id', p.id, 'meta', p.meta, 'at', p.at, 'seq', p.seq, 'links', (
            select json_agg(
                json_build_object(
                    'account', l.account, 'number', l.number, 'posting', l.posting,
                    'amount', l.amount, 'entries', l.entries, 'balance', l.balance,
                    'raised', l.raised, 'prev', l.prev, 'hash', l.hash, 'source', l.source,
                    'at', l.at
                )
                order by l.account
            )
            from offpath.ledger_link l
            where l.posting = p.id
        )
    )::text
    from offpath.ledger_posting p
    where p.id = name
$$;

-- A trim follows the last one, which is finished, and ends with a checkpoint.
create function offpath.ledger_trim_check() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'INSERT' and (
        new.done <> 0
        or new.number <> 1 + coalesce((select max(t.number) from offpath.ledger_trim t), 0)
        or exists (
            select from offpath.ledger_trim t where t.done < t.posting or t.posting >= new.posting
        )
        or not exists (
            select from offpath.ledger_checkpoint c
            where c.id = new.checkpoint and c.posting = new.posting
        )
    ) then
        raise exception 'the ledger refuses a write: trim % does not follow the last one', new.number
            using errcode = 'check_violation';
    end if;
    if tg_op = 'UPDATE' and (
        new.done < old.done
        or (
            new.number, new.posting, new.until, new.at, new.checkpoint, new.file, new.archive,
            new.kept, new.kid, new.signature
        ) is distinct from (
            old.number, old.posting, old.until, old.at, old.checkpoint, old.file, old.archive,
            old.kept, old.kid, old.signature
        )
    ) then
        raise exception 'the ledger refuses a write: what trim % is does not change', old.number
            using errcode = 'check_violation';
    end if;
    return new;
end
$$;

create trigger ledger_trim_checked before insert or update on offpath.ledger_trim
    for each row execute function offpath.ledger_trim_check();
create trigger ledger_trim_kept before delete on offpath.ledger_trim
    for each row execute function offpath.ledger_keep();
create trigger ledger_trim_stays before truncate on offpath.ledger_trim
    for each statement execute function offpath.ledger_keep();

-- What is kept of a posting is what it was; and nobody hides one that no trim may remove.
create function offpath.ledger_retired_check() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.posting is null and exists (
        select from offpath.ledger_posting p
        where p.id = new.id
            and p.seq <= (select max(t.posting) from offpath.ledger_trim t)
            and exists (
                select from offpath.ledger_link l
                where l.posting = p.id and l.account <> 'platform:netting_clearing'
            )
    ) then
        return new;
    end if;
    if new.posting is not null and new.posting = offpath.ledger_posting_text(new.id) then
        return new;
    end if;
    raise exception 'the ledger refuses a write: posting % is not retired so', new.id
        using errcode = 'check_violation';
end
$$;

create trigger ledger_retired_checked before insert on offpath.ledger_retired
    for each row execute function offpath.ledger_retired_check();
create trigger ledger_retired_kept before update or delete on offpath.ledger_retired
    for each row execute function offpath.ledger_keep();
create trigger ledger_retired_stays before truncate on offpath.ledger_retired
    for each statement execute function offpath.ledger_keep();

-- Links that are removed: behind the boundary, retired, and each with a later one of its account that
-- is behind it too, and without any before it.
create function offpath.ledger_link_gone() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_material = off set jit = off
as $$
declare
    boundary bigint;
    fault text;
begin
    select coalesce(max(t.posting), 0) into boundary from offpath.ledger_trim t;
    select g.number || ' of ' || g.account into fault
    from gone g
    where g.account = 'platform:netting_clearing'
        or not exists (
            select from offpath.ledger_posting p where p.id = g.posting and p.seq <= boundary
        )
        or not exists (select from offpath.ledger_retired r where r.id = g.posting)
        or exists (
            select from offpath.ledger_link l where l.account = g.account and l.number < g.number
        )
        or boundary < coalesce(
            (
                select p.seq
                from offpath.ledger_link l
                join offpath.ledger_posting p on p.id = l.posting
                where l.account = g.account and l.number > g.number
                order by l.number
                limit 1
            ),
            boundary + 1
        )
    limit 1;
    if fault is not null then
        raise exception 'ledger_link is append-only: delete of link % is refused', fault
            using errcode = 'integrity_constraint_violation';
    end if;
    return null;
end
$$;

drop trigger ledger_link_kept on offpath.ledger_link;
create trigger ledger_link_kept before update on offpath.ledger_link
    for each row execute function offpath.ledger_keep();
create trigger ledger_link_gone after delete on offpath.ledger_link
    referencing old table as gone
    for each statement execute function offpath.ledger_link_gone();

-- A new posting has links, and no id of one that was removed.
create or replace function offpath.ledger_posting_check() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_material = off set jit = off
as $$
declare
    fault text;
begin
    select f.id into fault
    from fresh f
    where not exists (select from offpath.ledger_link l where l.posting = f.id)
        or exists (select from offpath.ledger_retired r where r.id = f.id)
    limit 1;
    if fault is not null then
        raise exception 'the ledger refuses a write: posting % has no links, or an id that was used',
            fault using errcode = 'check_violation';
    end if;
    return null;
end
$$;
