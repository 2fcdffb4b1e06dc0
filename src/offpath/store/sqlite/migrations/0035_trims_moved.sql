-- A trim tells when it last moved. Nobody keeps more for one that was begun than it has signed, and nobody
-- puts a posting where trims have been: such rows could never be removed, and each proof would find them.

alter table offpath_ledger_trim add column moved integer;

drop trigger offpath_ledger_retired_new;

create trigger offpath_ledger_retired_new before insert on offpath_ledger_retired
when
    exists (select 1 from offpath_ledger_retired as known where known.id = new.id)
    or not exists (
        select 1 from offpath_ledger_posting as posting
        where
            posting.id = new.id
            and case
                when new.posting is null then
                    posting.seq <= (select max(trim.posting) from offpath_ledger_trim as trim)
                    and exists (
                        select 1 from offpath_ledger_link as link
                        where
                            link.id between posting.seq * 65536 and posting.seq * 65536 + 65535
                            and link.account <> 'platform:netting_clearing'
                    )
                else
                    new.trim > coalesce(
                        (select max(last.number) from offpath_ledger_trim as last), 0
                    )
                    and new.posting = (
                        select one.whole from offpath_ledger_whole as one
                        where one.seq = posting.seq
                    )
            end
    )
begin
    select raise(abort, 'offpath: a posting of the ledger is not retired so');
end;

drop trigger offpath_ledger_posting_new;

create trigger offpath_ledger_posting_new before insert on offpath_ledger_posting
when
    exists (select 1 from offpath_ledger_posting as known where known.id = new.id)
    or exists (select 1 from offpath_ledger_posting as known where known.seq = new.seq)
    or exists (select 1 from offpath_ledger_retired as gone where gone.id = new.id)
    -- -1 is what a number that is still to be given looks like
    or (
        new.seq <> -1
        and new.seq <= (select max(trim.posting) from offpath_ledger_trim as trim)
    )
begin
    select raise(abort, 'offpath: the ledger has this posting');
end;
