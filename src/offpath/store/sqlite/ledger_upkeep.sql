-- name: ledger_due
-- Rows of a kind that are due, the longest due first.
select
    kind, id, owner, state, version, due_at, attempts, amount, anchor, unique_key, created_at,
    touched_at, body
from offpath_ledger_side indexed by offpath_ledger_side_due
where
    kind = :kind and due_at <= :now
    and (state = 'RESERVED' or state = 'SUBMITTED' or state = 'ACTIVE' or state = 'OPEN')
order by due_at, id
limit :limit

-- name: ledger_lease
-- Nobody else sees them before this time.
update offpath_ledger_side indexed by offpath_ledger_side_id
set due_at = :until, version = version + 1
where kind = :kind and id in (select value from json_each(:ids))

-- name: ledger_checkpoint_last
-- The id of the last checkpoint.
select id from offpath_ledger_checkpoint order by seq desc limit 1

-- name: ledger_checkpoint_add
-- Seals the ledger as it stands.
insert into offpath_ledger_checkpoint (
    id, root, signature, count, at, v, sum, kid, prev, posting
)
values (:id, :root, :signature, :count, :at, :v, :sum, :kid, :prev, :posting)

-- name: ledger_leaf_clear
-- What was sealed before is not gone on from.
delete from offpath_ledger_leaf

-- name: ledger_leaf_put
-- Where the chains of accounts stand in it.
insert into offpath_ledger_leaf (account, number, head, sum)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3
from json_each(:batch)
where true
on conflict (account) do update set
    number = excluded.number,
    head = excluded.head,
    sum = excluded.sum

-- name: ledger_keys_old
-- Keys from before a time, looked for among the oldest: they are in the order of their commits.
select seq
from (select seq, at from offpath_ledger_key order by seq limit :limit)
where at < :before

-- name: ledger_keys_forget
-- Keys that can be used again.
delete from offpath_ledger_key where seq in (select value from json_each(:seqs)) returning seq

-- name: ledger_attempts_old
-- Attempts from before a time that have another of their subject behind them. Walks past the last
-- ones of subjects that do nothing any more, so it is for a connection that holds up nobody.
select old.seq
from offpath_ledger_attempt as old
where
    old.at < :before
    and exists (
        select 1 from offpath_ledger_attempt as newer
        where
            newer.subject = old.subject and newer.at >= old.at
            and (newer.at > old.at or newer.seq > old.seq)
    )
order by old.seq
limit :limit

-- name: ledger_attempts_forget
-- Attempts that no window reaches.
delete from offpath_ledger_attempt where seq in (select value from json_each(:seqs)) returning seq
