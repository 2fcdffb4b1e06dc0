-- name: ledger_accounts_by_id
-- Accounts of these ids. What no posting touched is not there, unless it has a balance all the same.
select id, balance, raised, head, number, kind, currency, guarded, side
from offpath_ledger_account
where id in (select value from json_each(:ids)) and id > :after
    and substr(id, 1, length(:prefix)) = :prefix
    and (number <> 0 or balance <> 0 or raised <> 0)
order by id
limit :limit

-- name: ledger_accounts_by_prefix
-- Accounts whose id begins so. A blob sorts behind every text.
select id, balance, raised, head, number, kind, currency, guarded, side
from offpath_ledger_account
where
    id > :after and id >= :prefix and id < coalesce(:beyond, x'')
    and (number <> 0 or balance <> 0 or raised <> 0)
order by id
limit :limit

-- name: ledger_debts
-- Accounts of what users owe, through an index of these alone.
select id, balance, raised, head, number, kind, currency, guarded, side
from offpath_ledger_account indexed by offpath_ledger_account_owed
where kind = 'owed' and balance <> 0 and id > :after
order by id
limit :limit

-- name: ledger_links_on
-- The links of an account from a number on.
select
    link.account, link.number, posting.id, link.amount, link.entries, link.balance, link.raised,
    link.prev, link.hash, posting.source, posting.at, posting.meta
from offpath_ledger_link as link indexed by offpath_ledger_link_chain
cross join offpath_ledger_posting as posting
where link.account = :account and link.number > :after and posting.seq = link.id >> 16
order by link.number
limit :limit

-- name: ledger_tails
-- The links of several accounts, each from behind a number up to another; they are given sorted.
select
    link.account, link.number, posting.id, link.amount, link.entries, link.balance, link.raised,
    link.prev, link.hash, posting.source, posting.at, posting.meta
from json_each(:tails) as tail
cross join offpath_ledger_link as link indexed by offpath_ledger_link_chain
cross join offpath_ledger_posting as posting
where
    link.account = tail.value ->> 0 and link.number > tail.value ->> 1
    and link.number <= tail.value ->> 2 and posting.seq = link.id >> 16
order by tail.key, link.number

-- name: ledger_links_back
-- The links of an account from a number down.
select
    link.account, link.number, posting.id, link.amount, link.entries, link.balance, link.raised,
    link.prev, link.hash, posting.source, posting.at, posting.meta
from offpath_ledger_link as link indexed by offpath_ledger_link_chain
cross join offpath_ledger_posting as posting
where link.account = :account and link.number < :before and posting.seq = link.id >> 16
order by link.number desc
limit :limit

-- name: ledger_walk
-- Every link, by account and number.
select
    link.account, link.number, posting.id, link.amount, link.entries, link.balance, link.raised,
    link.prev, link.hash, posting.source, posting.at, posting.meta
from offpath_ledger_link as link indexed by offpath_ledger_link_chain
cross join offpath_ledger_posting as posting
where (link.account, link.number) > (:account, :number) and posting.seq = link.id >> 16
order by link.account, link.number
limit :limit

-- name: ledger_postings_by_id
-- These postings, a row for each of their links; the metadata comes with the first one. Of one that a
-- trim has looked at, not all may be left.
select
    one.seq, one.at, link.account, link.number, one.id, link.amount, link.entries, link.balance,
    link.raised, link.prev, link.hash, one.source, one.at,
    case link.id & 65535 when 0 then one.meta end
from (
    select posting.seq, posting.id, posting.at, posting.source, posting.meta
    from json_each(:ids) as wanted
    cross join offpath_ledger_posting as posting
        indexed by sqlite_autoindex_offpath_ledger_posting_1
    where
        posting.id = wanted.value and posting.seq > :after
        and (
            posting.seq > (select coalesce(max(done), 0) from offpath_ledger_trim)
            or not exists (
                select 1 from offpath_ledger_retired as gone where gone.id = posting.id
            )
        )
    limit :limit
) as one
left join offpath_ledger_link as link
    on link.id between one.seq * 65536 and one.seq * 65536 + 65535
order by one.seq, link.id

-- name: ledger_postings_on
-- Postings in the order of their commits, a row for each of their links, behind what was trimmed; the
-- metadata comes with the first one.
select
    posting.seq, posting.at, link.account, link.number, posting.id, link.amount, link.entries,
    link.balance, link.raised, link.prev, link.hash, posting.source, posting.at,
    case link.id & 65535 when 0 then posting.meta end
from (
    select max(:after, coalesce(max(done), 0)) as seq from offpath_ledger_trim
) as place
cross join offpath_ledger_posting as posting
left join offpath_ledger_link as link
    on link.id between posting.seq * 65536 and posting.seq * 65536 + 65535
where posting.seq > place.seq and posting.seq <= place.seq + :limit
order by posting.seq, link.id

-- name: ledger_sides_by_id
-- Rows of a kind by id.
select
    kind, id, owner, state, version, due_at, attempts, amount, anchor, unique_key, created_at,
    touched_at, body
from offpath_ledger_side
where
    kind = :kind and id in (select value from json_each(:ids)) and +id > :after
    and (:owner is null or owner = :owner)
    and (:states is null or state in (select value from json_each(:states)))
order by id
limit :limit

-- name: ledger_sides_of_owner
-- Rows of a kind and an owner.
select
    kind, id, owner, state, version, due_at, attempts, amount, anchor, unique_key, created_at,
    touched_at, body
from offpath_ledger_side
where
    kind = :kind and owner = :owner and id > :after
    and (:states is null or state in (select value from json_each(:states)))
order by id
limit :limit

-- name: ledger_sides_of_kind
-- Rows of a kind.
select
    kind, id, owner, state, version, due_at, attempts, amount, anchor, unique_key, created_at,
    touched_at, body
from offpath_ledger_side
where
    kind = :kind and id > :after
    and (:states is null or state in (select value from json_each(:states)))
order by id
limit :limit

-- name: ledger_bare
-- Postings without links.
select posting.id
from offpath_ledger_posting as posting
where
    not exists (
        select 1 from offpath_ledger_link as link
        where link.id between posting.seq * 65536 and posting.seq * 65536 + 65535
    )
order by posting.id
limit :limit

-- name: ledger_key
-- The record under an idempotency key.
select key, fingerprint, receipt, at
from offpath_ledger_key
where key = :key

-- name: ledger_totals
-- Sums of the accounts' balances by kind, the quotes of open payouts by their rows, and what was asked
-- to be paid out and has no end by the postings: an end is one that takes out of the reserve what the
-- request put there. Each in two parts, above and below 32 bits: they may have more than 64. No payout
-- that was asked for before a trim's boundary is open.
with request as (
    select
        posting.seq as seq, posting.meta ->> '$.sagaId' as payout,
        cast(replace(substr(posting.meta ->> '$.payoutUsd', 5), '.', '') as integer) as quote
    from offpath_ledger_posting as posting indexed by offpath_ledger_posting_request
    where
        instr(posting.meta, '"kind":"requestPayout"') > 0
        and posting.meta ->> '$.kind' = 'requestPayout'
        and posting.meta ->> '$.payoutUsd' glob 'USD:[0-9]*.[0-9][0-9]'
        and posting.seq > (select coalesce(max(done), 0) from offpath_ledger_trim)
)
select 'balances', kind, sum(balance >> 32), sum(balance & 4294967295)
from offpath_ledger_account
where number > 0
group by kind
union all
select 'quotes', '', coalesce(sum(amount >> 32), 0), coalesce(sum(amount & 4294967295), 0)
from offpath_ledger_side indexed by offpath_ledger_side_quote
where kind = 'payout' and (state = 'RESERVED' or state = 'SUBMITTED')
union all
select
    'requested', '', coalesce(sum(request.quote >> 32), 0),
    coalesce(sum(request.quote & 4294967295), 0)
from request
where
    not exists (
        select 1
        from offpath_ledger_posting as done
        cross join offpath_ledger_link as taken
        cross join offpath_ledger_link as put
        where
            done.id = request.payout || ':end'
            and taken.id between done.seq * 65536 and done.seq * 65536 + 65535
            and +taken.account = 'platform:payout_reserve'
            and put.id between request.seq * 65536 and request.seq * 65536 + 65535
            and +put.account = 'platform:payout_reserve'
            and put.amount = -taken.amount
    )

-- name: ledger_last
-- The number of the last posting; also the first read of a snapshot.
select coalesce(max(seq), 0) from offpath_ledger_posting

-- name: ledger_sums
-- The sum of all entries by currency, by halves of 32 bits: on the way it may have more than 64. With
-- what the first link of a trimmed chain goes on from.
select account.currency, sum(each.high), sum(each.low)
from (
    select account, sum(amount >> 32) as high, sum(amount & 4294967295) as low
    from offpath_ledger_link
    group by account
    union all
    select link.account, (link.balance * known.side - link.amount) >> 32,
        (link.balance * known.side - link.amount) & 4294967295
    from offpath_ledger_link as link
    cross join offpath_ledger_account as known
    where
        link.id <= (select max(posting) from offpath_ledger_trim) * 65536 + 65535
        and link.number > 1 and known.id = link.account
        and not exists (
            select 1 from offpath_ledger_link as before
            where before.account = link.account and before.number = link.number - 1
        )
) as each
cross join offpath_ledger_account as account
where account.id = each.account
group by account.currency

-- name: ledger_counts
-- How many accounts, postings and links there are; both of the latter are numbered without a gap, but
-- for what trims have removed.
select
    (select count(*) from offpath_ledger_account where number > 0),
    (select coalesce(max(seq), 0) from offpath_ledger_posting)
    - (select coalesce(sum(postings), 0) from offpath_ledger_trim),
    (select coalesce(sum(number), 0) from offpath_ledger_account)
    - (select coalesce(sum(links), 0) from offpath_ledger_trim)

-- name: ledger_checkpoints
-- Checkpoints, the latest first.
select id, root, signature, count, at, v, sum, kid, prev, posting
from offpath_ledger_checkpoint
where
    seq < case
        when :before = '' then 9223372036854775807
        else (select seq from offpath_ledger_checkpoint where id = :before)
    end
order by seq desc
limit :limit

-- name: ledger_leaves
-- The leaves of the last checkpoint.
select account, number, head, sum
from offpath_ledger_leaf
where account > :after
order by account
limit :limit

-- name: ledger_leaves_of
-- The leaves of these accounts.
select account, number, head, sum
from offpath_ledger_leaf
where account in (select value from json_each(:ids)) and account > :after
order by account
limit :limit

-- name: ledger_moved
-- Accounts that are not as their leaf has them or have links behind their last one, then leaves
-- without an account, only as far as the accounts of the page go.
with moved as materialized (
    select account.id as id
    from offpath_ledger_account as account
    left join offpath_ledger_leaf as leaf on leaf.account = account.id
    where
        account.id > :after
        and (account.number <> 0 or account.balance <> 0 or account.raised <> 0)
        and (
            leaf.number is not account.number
            or leaf.head is not account.head
            or leaf.sum is not account.balance * account.side
            or not exists (
                select 1 from offpath_ledger_link as link
                where
                    link.account = leaf.account and link.number = leaf.number
                    and link.hash = leaf.head
            )
            or exists (
                select 1 from offpath_ledger_link as link
                where link.account = account.id and link.number > account.number
            )
        )
    order by account.id
    limit :limit
)
select id from moved
union all
select id from (
    select leaf.account as id
    from offpath_ledger_leaf as leaf
    left join offpath_ledger_account as account on account.id = leaf.account
    where
        leaf.account > :after
        and leaf.account <= coalesce(
            (select max(id) from moved having count(*) >= :limit), char(1114111, 1114111)
        )
        and (
            account.id is null
            or account.number = 0 and account.balance = 0 and account.raised = 0
        )
    order by leaf.account
    limit :limit
)
order by 1
limit :limit

-- name: ledger_trims
-- Trims, the latest first.
select number, checkpoint, posting, until, at, file, archive, kept, kid, signature, done, postings, links, moved
from offpath_ledger_trim
order by number desc

-- part: standing
-- The last link up to a posting. It is looked for from the first one on, where it is once a trim is
-- finished; an account that is younger is passed over by its first link.
cross join offpath_ledger_link as link
cross join offpath_ledger_posting as posting
where
    link.id = case
        when (
            select begun.id >> 16
            from offpath_ledger_link as begun indexed by offpath_ledger_link_chain
            where begun.account = account.id
            order by begun.number
            limit 1
        ) <= :until
        then (
            select one.id from offpath_ledger_link as one indexed by offpath_ledger_link_chain
            where
                one.account = account.id and one.id >> 16 <= :until
                and not exists (
                    select 1
                    from offpath_ledger_link as following indexed by offpath_ledger_link_chain
                    where
                        following.account = one.account and following.number = one.number + 1
                        and following.id >> 16 <= :until
                )
            order by one.number
            limit 1
        )
    end
    and posting.seq = link.id >> 16 and account.number > 0 and account.id > :after
order by account.id
limit :limit

-- name: ledger_standings
-- The last link of each account up to a posting, with its posting's metadata.
select
    link.account, link.number, posting.id, link.amount, link.entries, link.balance, link.raised,
    link.prev, link.hash, posting.source, posting.at, posting.meta
from offpath_ledger_account as account
/* part: standing */

-- name: ledger_standings_of
-- The same of these accounts.
select
    link.account, link.number, posting.id, link.amount, link.entries, link.balance, link.raised,
    link.prev, link.hash, posting.source, posting.at, posting.meta
from (
    select id, number from offpath_ledger_account
    where id in (select value from json_each(:ids))
) as account
/* part: standing */

-- name: ledger_retired_of
-- Postings of these ids that were removed, with the file that has them.
select gone.id, gone.trim, coalesce(trim.file, ''), gone.posting
from json_each(:ids) as wanted
cross join offpath_ledger_retired as gone
left join offpath_ledger_trim as trim on trim.number = gone.trim
where gone.id = wanted.value and gone.id > :after
order by gone.id
limit :limit

-- name: ledger_kept
-- Postings that a trim keeps whole.
select gone.id, gone.trim, coalesce(trim.file, ''), gone.posting
from offpath_ledger_retired as gone indexed by offpath_ledger_retired_kept
left join offpath_ledger_trim as trim on trim.number = gone.trim
where gone.trim = :trim and gone.posting is not null and gone.id > :after
order by gone.id
limit :limit
