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

-- name: keep_postings
-- Postings that rows name which are open are kept whole, until the trim is begun: what it kept is signed.
insert into offpath_ledger_retired (id, trim, posting)
select one.id, :trim, one.whole
from json_each(:ids) as wanted
cross join offpath_ledger_whole as one
where
    one.id = wanted.value
    and not exists (select 1 from offpath_ledger_retired as known where known.id = one.id)
    and :trim > coalesce((select max(number) from offpath_ledger_trim), 0)

-- name: add_trim
-- Writes a trim if it follows the last one, which is finished, its checkpoint is there, and no more is
-- kept for it than was signed.
insert into offpath_ledger_trim (
    number, checkpoint, posting, until, at, file, archive, kept, kid, signature
)
select :number, :checkpoint, :posting, :until, :at, :file, :archive, :kept, :kid, :signature
where
    :posting > 0
    and :number = 1 + coalesce((select max(number) from offpath_ledger_trim), 0)
    and not exists (
        select 1 from offpath_ledger_trim where done < posting or posting >= :posting
    )
    and exists (
        select 1 from offpath_ledger_checkpoint where id = :checkpoint and posting = :posting
    )
    and :keeps = (
        select count(*) from offpath_ledger_retired where trim = :number and posting is not null
    )
returning 1

-- name: next_trim
-- The trim that is under way: its number, its boundary, the last posting that was looked at, how many
-- come next, and the last of these.
select
    last.number, last.posting, last.done, count(one.seq),
    case when count(one.seq) < :limit then last.posting else max(one.seq) end
from (
    select number, posting, done from offpath_ledger_trim order by number desc limit 1
) as last
left join (
    select posting.seq from offpath_ledger_posting as posting
    where
        posting.seq > (select done from offpath_ledger_trim order by number desc limit 1)
        and posting.seq <= (select max(posting) from offpath_ledger_trim)
    order by posting.seq
    limit :limit
) as one
where last.done < last.posting
group by last.number

-- name: retire_postings
-- From now on these ids are those of postings that were removed. Records of the audit alone stay.
insert into offpath_ledger_retired (id, trim)
select posting.id, :number
from offpath_ledger_posting as posting
where
    posting.seq > :after and posting.seq <= :through
    and exists (
        select 1 from offpath_ledger_link as link
        where
            link.id between posting.seq * 65536 and posting.seq * 65536 + 65535
            and link.account <> 'platform:netting_clearing'
    )
    and not exists (select 1 from offpath_ledger_retired as known where known.id = posting.id)

-- name: trim_links
-- Removes links behind which there is another one of their account up to the boundary.
delete from offpath_ledger_link
where
    id between (:after + 1) * 65536 and :through * 65536 + 65535
    and account <> 'platform:netting_clearing'
    and exists (
        select 1 from offpath_ledger_link as following
        where
            following.account = offpath_ledger_link.account
            and following.number = offpath_ledger_link.number + 1
            and following.id >> 16 <= :boundary
    )
returning 1

-- name: drop_trimmed
-- Removes postings of which no link is left.
delete from offpath_ledger_posting
where
    seq > :after and seq <= :through
    and not exists (
        select 1 from offpath_ledger_link as link
        where
            link.id between offpath_ledger_posting.seq * 65536
            and offpath_ledger_posting.seq * 65536 + 65535
    )
returning 1

-- name: advance_trim
-- These were looked at.
update offpath_ledger_trim
set
    done = :through, postings = postings + :postings, links = links + :links, moved = :now
where number = :number
