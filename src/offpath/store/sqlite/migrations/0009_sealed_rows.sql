-- Rows beside the ledger's postings are not removed, and no posting is bare.

-- What was asked to be paid out, which is owed until it has an end.
create index offpath_ledger_posting_request on offpath_ledger_posting (seq)
where instr(meta, '"kind":"requestPayout"') > 0;

create trigger offpath_ledger_side_kept before delete on offpath_ledger_side
begin
    select raise(abort, 'offpath: a row of the ledger is not removed');
end;

-- One that is bare all the same, since its triggers were off, may be removed by who needs its id.
drop trigger offpath_ledger_posting_kept;

create trigger offpath_ledger_posting_kept before delete on offpath_ledger_posting
when
    exists (
        select 1 from offpath_ledger_link as link
        where link.id between old.seq * 65536 and old.seq * 65536 + 65535
    )
begin
    select raise(abort, 'offpath: a posting of the ledger is not removed');
end;

-- A REPLACE removes the row that is in its way without any trigger.
create trigger offpath_ledger_side_new before insert on offpath_ledger_side
when
    exists (
        select 1 from offpath_ledger_side as known
        where known.kind = new.kind and known.id = new.id
    )
    or exists (
        select 1 from offpath_ledger_side as known
        where
            known.kind = new.kind and known.unique_key = new.unique_key
            and new.unique_key is not null
    )
    or exists (select 1 from offpath_ledger_side as known where known.seq = new.seq)
begin
    select raise(abort, 'offpath: the ledger has this row');
end;

create trigger offpath_ledger_side_keyed before update of unique_key on offpath_ledger_side
when
    new.unique_key is not null
    and exists (
        select 1 from offpath_ledger_side as known
        where known.kind = new.kind and known.unique_key = new.unique_key and known.seq <> new.seq
    )
begin
    select raise(abort, 'offpath: another row of the ledger has this key');
end;
