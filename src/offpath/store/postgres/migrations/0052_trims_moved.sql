-- A trim tells when it last moved. Nobody keeps more for one that was begun than it has signed, and nobody
-- puts a posting where trims have been: such rows could never be removed, and each proof would find them.

alter table offpath.ledger_trim add column moved bigint;

create or replace function offpath.ledger_retired_check() returns trigger
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
    if new.posting = offpath.ledger_posting_text(new.id)
        and new.trim > coalesce((select max(t.number) from offpath.ledger_trim t), 0)
    then
        return new;
    end if;
    raise exception 'the ledger refuses a write: posting % is not retired so', new.id
        using errcode = 'check_violation';
end
$$;

-- A new posting has links, no id of one that was removed, and a number behind all trims.
create or replace function offpath.ledger_posting_check() returns trigger
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
    select f.id into fault
    from fresh f
    where f.seq <= boundary
        or not exists (select from offpath.ledger_link l where l.posting = f.id)
        or exists (select from offpath.ledger_retired r where r.id = f.id)
    limit 1;
    if fault is not null then
        raise exception
            'the ledger refuses a write: posting % has no links, or an id or a number that was used',
            fault using errcode = 'check_violation';
    end if;
    return null;
end
$$;
