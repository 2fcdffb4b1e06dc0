-- name: due_sides
-- The store's time in milliseconds, and due rows of a kind, the longest due first.
select
    :now, kind, id, owner, state, version, due_at, attempts, amount, anchor, unique_key, created_at,
    touched_at, body
from offpath_ledger_side indexed by offpath_ledger_side_due
where
    kind = :kind and due_at <= :now
    and (state = 'RESERVED' or state = 'SUBMITTED' or state = 'ACTIVE' or state = 'OPEN')
order by due_at, id
limit :limit

-- name: hold_sides
-- These rows are due at this time, and a version older.
update offpath_ledger_side indexed by offpath_ledger_side_id
set due_at = :until, version = version + 1
where kind = :kind and id in (select value from json_each(:ids))

-- name: lock_checkpoints
-- nothing

-- name: add_checkpoint
-- Writes a checkpoint if it follows the last one.
insert into offpath_ledger_checkpoint (
    id, root, signature, count, at, v, sum, kid, prev, posting
)
select :id, :root, :signature, :count, :at, :v, :sum, :kid, :prev, :posting
where :prev is (select id from offpath_ledger_checkpoint order by seq desc limit 1)
returning 1

-- name: clear_leaves
-- What was sealed before is not gone on from.
delete from offpath_ledger_leaf

-- name: put_leaves
-- Leaves that differ from the last checkpoint's.
insert into offpath_ledger_leaf (account, number, head, sum)
select
    leaf.value ->> 'account', leaf.value ->> 'number', leaf.value ->> 'head', leaf.value ->> 'sum'
from json_each(:batch) as leaf
where true
on conflict (account) do update set
    number = excluded.number,
    head = excluded.head,
    sum = excluded.sum

-- name: old_attempts
-- Attempts from before a time that have another of their subject behind them. It walks past the last
-- ones of subjects that do nothing any more, so it is for a connection that holds up nobody.
select old.subject, old.at, old.seq
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

-- name: old_keys
-- Keys from before a time, looked for among the oldest: they are in the order of their commits.
select key
from (select seq, key, at from offpath_ledger_key order by seq limit :limit)
where at < :before

-- name: prune_attempts
-- Removes attempts that no window reaches. One that counts anew has another number.
delete from offpath_ledger_attempt
where seq in (select value ->> 2 from json_each(:attempts))
returning seq

-- name: prune_keys
-- Removes idempotency keys, unless they were used again.
delete from offpath_ledger_key
where key in (select value from json_each(:keys)) and at < :before
returning key
