-- Rows beside the ledger's postings are not removed, no table of it is emptied, and no posting is bare.

-- What was asked to be paid out, which is owed until it has an end.
create index ledger_posting_request on offpath.ledger_posting (seq)
    where strpos(meta, '"kind":"requestPayout"') > 0;

create trigger ledger_side_kept before delete on offpath.ledger_side
    for each row execute function offpath.ledger_keep();

-- Triggers for each row do not see a TRUNCATE.
create trigger ledger_posting_stays before truncate on offpath.ledger_posting
    for each statement execute function offpath.ledger_keep();
create trigger ledger_link_stays before truncate on offpath.ledger_link
    for each statement execute function offpath.ledger_keep();
create trigger ledger_account_stays before truncate on offpath.ledger_account
    for each statement execute function offpath.ledger_keep();
create trigger ledger_side_stays before truncate on offpath.ledger_side
    for each statement execute function offpath.ledger_keep();
create trigger ledger_key_stays before truncate on offpath.ledger_key
    for each statement execute function offpath.ledger_keep();
create trigger ledger_attempt_stays before truncate on offpath.ledger_attempt
    for each statement execute function offpath.ledger_keep();
create trigger ledger_checkpoint_stays before truncate on offpath.ledger_checkpoint
    for each statement execute function offpath.ledger_keep();
create trigger ledger_leaf_stays before truncate on offpath.ledger_leaf
    for each statement execute function offpath.ledger_keep();

-- A posting comes with its links, in one statement. A bare one would say nothing, and have the id that
-- another needs, such as the end of a payout.
create function offpath.ledger_posting_check() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_material = off set jit = off
as $$
declare
    bare text;
begin
    select f.id into bare
    from fresh f
    where not exists (select from offpath.ledger_link l where l.posting = f.id)
    limit 1;
    if bare is not null then
        raise exception 'the ledger refuses a write: posting % has no links', bare
            using errcode = 'check_violation';
    end if;
    return null;
end
$$;

create trigger ledger_posting_checked after insert on offpath.ledger_posting
    referencing new table as fresh
    for each statement execute function offpath.ledger_posting_check();

-- One that is bare all the same, since its triggers were off, may be removed by who needs its id.
create function offpath.ledger_posting_keep() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE'
        and not exists (select from offpath.ledger_link l where l.posting = old.id)
    then
        return old;
    end if;
    raise exception '% is append-only: % of a row is refused', tg_table_name, lower(tg_op)
        using errcode = 'integrity_constraint_violation';
end
$$;

drop trigger ledger_posting_kept on offpath.ledger_posting;
create trigger ledger_posting_kept before update or delete on offpath.ledger_posting
    for each row execute function offpath.ledger_posting_keep();
