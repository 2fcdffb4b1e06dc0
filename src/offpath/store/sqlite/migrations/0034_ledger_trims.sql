-- Trims remove postings that a signed archive has; of each chain the link stays from which it goes on.
--
-- A row's own rules keep what no program may break: a link goes only behind a trim's boundary, never
-- the last one of its account up to there, and never from the middle of a chain.

create table offpath_ledger_trim (
    number integer primary key,
    -- The boundary: the last posting that the checkpoint covers.
    posting integer not null check (posting > 0),
    -- The time of that posting, and the time of the trim's begin.
    until integer not null,
    at integer not null,
    -- The last posting that was looked at.
    done integer not null default 0 check (done between 0 and posting),
    postings integer not null default 0,
    links integer not null default 0,
    checkpoint text not null,
    file text not null,
    archive text not null,
    kept text not null,
    kid text not null,
    signature text not null
) strict;

create table offpath_ledger_retired (
    id text primary key,
    trim integer not null,
    -- The whole posting as JSON, where a row that was open named it.
    posting text
) strict, without rowid;

create index offpath_ledger_retired_kept on offpath_ledger_retired (trim, id)
where posting is not null;

-- Postings with their links as JSON.
create view offpath_ledger_whole as
select
    posting.seq as seq, posting.id as id,
    json_object(
        'id', posting.id, 'meta', posting.meta, 'at', posting.at, 'seq', posting.seq, 'links', (
            select
                json_group_array(
                    json_object(
                        'account', one.account, 'number', one.number, 'posting', posting.id,
                        'amount', one.amount,
                        'entries', json(coalesce(one.entries, json_array(one.amount))),
                        'balance', one.balance, 'raised', one.raised, 'prev', one.prev,
                        'hash', one.hash, 'source', posting.source, 'at', posting.at
                    )
                )
            from (
                select * from offpath_ledger_link as link
                where link.id between posting.seq * 65536 and posting.seq * 65536 + 65535
                order by link.id
            ) as one
        )
    ) as whole
from offpath_ledger_posting as posting;

create trigger offpath_ledger_trim_new before insert on offpath_ledger_trim
when
    new.done <> 0
    or new.number <> 1 + coalesce((select max(last.number) from offpath_ledger_trim as last), 0)
    or exists (
        select 1 from offpath_ledger_trim as last
        where last.done < last.posting or last.posting >= new.posting
    )
    or not exists (
        select 1 from offpath_ledger_checkpoint as sealed
        where sealed.id = new.checkpoint and sealed.posting = new.posting
    )
begin
    select raise(abort, 'offpath: a trim of the ledger follows the last one');
end;

create trigger offpath_ledger_trim_fixed
before update of number, posting, until, at, checkpoint, file, archive, kept, kid, signature
on offpath_ledger_trim
begin
    select raise(abort, 'offpath: what a trim of the ledger is does not change');
end;

create trigger offpath_ledger_trim_back before update of done on offpath_ledger_trim
when new.done < old.done
begin
    select raise(abort, 'offpath: a trim of the ledger does not go back');
end;

create trigger offpath_ledger_trim_kept before delete on offpath_ledger_trim
begin
    select raise(abort, 'offpath: a trim of the ledger is not removed');
end;

-- What is kept of a posting is what it was; and nobody hides one that no trim may remove. A REPLACE
-- removes the row that is in its way without any trigger.
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
                    new.posting = (
                        select one.whole from offpath_ledger_whole as one
                        where one.seq = posting.seq
                    )
            end
    )
begin
    select raise(abort, 'offpath: a posting of the ledger is not retired so');
end;

create trigger offpath_ledger_retired_fixed before update on offpath_ledger_retired
begin
    select raise(abort, 'offpath: a retired posting of the ledger does not change');
end;

create trigger offpath_ledger_retired_kept before delete on offpath_ledger_retired
begin
    select raise(abort, 'offpath: a retired posting of the ledger is not removed');
end;

-- Links that are removed: behind the boundary, retired, and each with a later one of its account that
-- is behind it too, and without any before it.
drop trigger offpath_ledger_link_kept;

create trigger offpath_ledger_link_kept before delete on offpath_ledger_link
when
    old.account = 'platform:netting_clearing'
    or not exists (
        select 1
        from offpath_ledger_posting as posting
        cross join offpath_ledger_retired as gone
        where
            posting.seq = old.id >> 16 and gone.id = posting.id
            and posting.seq <= (select max(trim.posting) from offpath_ledger_trim as trim)
    )
    or exists (
        select 1 from offpath_ledger_link as link
        where link.account = old.account and link.number < old.number
    )
    or coalesce(
        (
            select link.id >> 16 from offpath_ledger_link as link
            where link.account = old.account and link.number > old.number
            order by link.number
            limit 1
        ) > (select max(trim.posting) from offpath_ledger_trim as trim),
        1
    )
begin
    select raise(abort, 'offpath: a link of the ledger is not removed');
end;

drop trigger offpath_ledger_posting_new;

create trigger offpath_ledger_posting_new before insert on offpath_ledger_posting
when
    exists (select 1 from offpath_ledger_posting as known where known.id = new.id)
    or exists (select 1 from offpath_ledger_posting as known where known.seq = new.seq)
    or exists (select 1 from offpath_ledger_retired as gone where gone.id = new.id)
begin
    select raise(abort, 'offpath: the ledger has this posting');
end;
