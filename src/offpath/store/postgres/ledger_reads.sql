-- name: ledger_accounts_by_id
-- These accounts. Those that were only made to be locked are not there, unless
-- they have a balance all the same.
select a.id, a.balance, a.raised, a.head, a.number, a.kind, a.currency, a.guarded::integer,
    null::integer
from json_array_elements_text(:ids::text::json) as b (id)
join offpath.ledger_account a on a.id = b.id
where (a.number <> 0 or a.balance <> 0 or a.raised <> 0)
    and starts_with(a.id, :prefix::text)
    and a.id > :after::text
order by a.id
limit :limit::bigint

-- name: ledger_accounts_by_prefix
-- Accounts whose id begins so, by id.
select a.id, a.balance, a.raised, a.head, a.number, a.kind, a.currency, a.guarded::integer,
    null::integer
from offpath.ledger_account a
where (a.number <> 0 or a.balance <> 0 or a.raised <> 0)
    and starts_with(a.id, :prefix::text)
    and a.id > :after::text
    and a.id >= :prefix::text
    and (:beyond::text is null or a.id < :beyond::text)
order by a.id
limit :limit::bigint

-- name: ledger_debts
-- Accounts of what users owe, by id, through an index of these alone.
select a.id, a.balance, a.raised, a.head, a.number, a.kind, a.currency, a.guarded::integer,
    null::integer
from offpath.ledger_account a
where a.kind = 'owed' and a.balance <> 0 and a.id > :after::text
order by a.id
limit :limit::bigint

-- name: ledger_links_on
-- Links of an account behind a number, forwards, each with its posting's metadata.
select
    l.account, l.number, l.posting, l.amount, array_to_json(l.entries)::text, l.balance, l.raised,
    l.prev, l.hash, l.source, l.at, p.meta
from (
    select *
    from offpath.ledger_link
    where account = :account::text and number > :after::bigint
    order by number
    limit :limit::bigint
) as l
join offpath.ledger_posting p on p.id = l.posting
order by l.number

-- name: ledger_tails
-- Links of several accounts, each from behind a number up to another, with their postings' metadata.
-- The inner limits have each looked up: the planner could take the accounts for most there are.
select
    l.account, l.number, l.posting, l.amount, array_to_json(l.entries)::text, l.balance, l.raised,
    l.prev, l.hash, l.source, l.at, p.meta
from (
    select
        value ->> 0 as account, (value ->> 1)::bigint as after, (value ->> 2)::bigint as until
    from json_array_elements(:tails::text::json)
) as b
cross join lateral (
    select *
    from offpath.ledger_link
    where account = b.account and number > b.after and number <= b.until
    order by number
    limit b.until - b.after
) as l
cross join lateral (select meta from offpath.ledger_posting where id = l.posting limit 1) as p
order by l.account, l.number

-- name: ledger_links_back
-- Links of an account before a number, backwards, each with its posting's metadata.
select
    l.account, l.number, l.posting, l.amount, array_to_json(l.entries)::text, l.balance, l.raised,
    l.prev, l.hash, l.source, l.at, p.meta
from (
    select *
    from offpath.ledger_link
    where account = :account::text and number < :before::bigint
    order by number desc
    limit :limit::bigint
) as l
join offpath.ledger_posting p on p.id = l.posting
order by l.number desc

-- name: ledger_walk
-- Every link by account and number, with its posting's metadata.
select
    l.account, l.number, l.posting, l.amount, array_to_json(l.entries)::text, l.balance, l.raised,
    l.prev, l.hash, l.source, l.at, p.meta
from (
    select *
    from offpath.ledger_link
    where (account, number) > (:account::text, :number::bigint)
    order by account, number
    limit :limit::bigint
) as l
join offpath.ledger_posting p on p.id = l.posting
order by l.account, l.number

-- name: ledger_postings_by_id
-- These postings, a row for each of their links. Of one that a trim has looked at, not all may be left.
select
    p.seq, p.at, l.account, l.number, p.id, l.amount, array_to_json(l.entries)::text, l.balance, l.raised,
    l.prev, l.hash, l.source, l.at, p.meta
from (
    select f.*
    from json_array_elements_text(:ids::text::json) as b (id)
    join offpath.ledger_posting f on f.id = b.id
    where f.seq > :after::bigint
        and (
            f.seq > (select coalesce(max(t.done), 0) from offpath.ledger_trim t)
            or not exists (select from offpath.ledger_retired r where r.id = f.id)
        )
    limit :limit::bigint
) as p
left join offpath.ledger_link l on l.posting = p.id
order by p.seq, l.account

-- name: ledger_postings_on
-- Postings in the order of their commits, a row for each of their links, behind what was trimmed.
select
    p.seq, p.at, l.account, l.number, p.id, l.amount, array_to_json(l.entries)::text, l.balance, l.raised,
    l.prev, l.hash, l.source, l.at, p.meta
from (
    select *
    from offpath.ledger_posting
    where seq > greatest(
        :after::bigint, (select coalesce(max(t.done), 0) from offpath.ledger_trim t)
    )
    order by seq
    limit :limit::bigint
) as p
left join offpath.ledger_link l on l.posting = p.id
order by p.seq, l.account

-- name: ledger_sides_by_id
-- These side rows, those that also meet the other conditions. The inner limit has each looked up by
-- its id: the planner could take a kind for rare and walk all of it.
select
    f.kind, f.id, f.owner, f.state, f.version, f.due_at, f.attempts, f.amount, f.anchor,
    f.unique_key, f.created_at, f.touched_at, f.body
from json_array_elements_text(:ids::text::json) as b (id)
cross join lateral (
    select s.* from offpath.ledger_side s where s.kind = :kind::text and s.id = b.id limit 1
) as f
where (:owner::text is null or f.owner = :owner::text)
    and (:states::text is null or f.state = any (
        array(select json_array_elements_text(:states::text::json))
    ))
    and f.id > :after::text
order by f.id
limit :limit::bigint

-- name: ledger_sides_of_owner
-- Side rows of an owner, by id.
select
    s.kind, s.id, s.owner, s.state, s.version, s.due_at, s.attempts, s.amount, s.anchor,
    s.unique_key, s.created_at, s.touched_at, s.body
from offpath.ledger_side s
where s.kind = :kind::text
    and s.owner = :owner::text
    and (:states::text is null or s.state = any (
        array(select json_array_elements_text(:states::text::json))
    ))
    and s.id > :after::text
order by s.id
limit :limit::bigint

-- name: ledger_sides_of_kind
-- Side rows of a kind, by id.
select
    s.kind, s.id, s.owner, s.state, s.version, s.due_at, s.attempts, s.amount, s.anchor,
    s.unique_key, s.created_at, s.touched_at, s.body
from offpath.ledger_side s
where s.kind = :kind::text
    and (:states::text is null or s.state = any (
        array(select json_array_elements_text(:states::text::json))
    ))
    and s.id > :after::text
order by s.id
limit :limit::bigint

-- name: ledger_bare
-- Postings without links.
select p.id
from offpath.ledger_posting p
where not exists (select from offpath.ledger_link l where l.posting = p.id)
order by p.id
limit :limit::bigint

-- name: ledger_key
-- The record under an idempotency key.
select k.key, k.fingerprint, k.receipt::text, k.at
from offpath.ledger_key k
where k.key = :key::text

-- name: ledger_totals
-- Sums of the accounts' balances by kind, the quotes of open payouts by their rows, and what was asked
-- to be paid out and has no end by the postings: an end is one that takes out of the reserve what the
-- request put there, and a row may be gone or altered. Each in two parts, above and below 32 bits. No
-- payout that was asked for before a trim's boundary is open.
-- It reads all accounts: in one pass over the table where it is planned freely, account by account
-- where plans are pinned.
select
    x.of, x.name, div(x.total, 4294967296)::bigint, mod(x.total, 4294967296)::bigint
from (
    select 'balances' as of, a.kind as name, sum(a.balance) as total
    from offpath.ledger_account a
    where a.number > 0
    group by a.kind
    union all
    select 'quotes', '', coalesce(sum(s.amount), 0)
    from offpath.ledger_side s
    where s.kind = 'payout' and s.state in ('RESERVED', 'SUBMITTED')
    union all
    select 'requested', '', coalesce(sum(replace(r.quote, '.', '')::numeric), 0)
    from (
        select
            p.id, substring(p.meta from '"sagaId":"([^"\\]*)"') as payout,
            substring(p.meta from '"payoutUsd":"USD:(\d+\.\d\d)"') as quote
        from offpath.ledger_posting p
        where strpos(p.meta, '"kind":"requestPayout"') > 0
            and p.seq > (select coalesce(max(t.done), 0) from offpath.ledger_trim t)
    ) as r
    where not exists (
        select
        from offpath.ledger_link taken
        join offpath.ledger_link put on put.account = taken.account
        where taken.posting = r.payout || ':end'
            and taken.account = 'platform:payout_reserve'
            and put.posting = r.id
            and put.amount = -taken.amount
    )
) as x

-- name: ledger_last
-- The number of the last posting.
select coalesce(max(p.seq), 0) from offpath.ledger_posting p

-- name: ledger_sums
-- The sums of all entries by currency, in two parts, above and below 32 bits; with what the first link
-- of a trimmed chain goes on from.
select x.currency, div(x.total, 4294967296)::bigint, mod(x.total, 4294967296)::bigint
from (
    select each.currency, sum(each.total) as total
    from (
        select l.currency, sum(l.amount) as total from offpath.ledger_link l group by l.currency
        union all
        select l.currency, l.balance::numeric * offpath.ledger_grows(l.account) - l.amount
        from offpath.ledger_posting p
        join offpath.ledger_link l on l.posting = p.id
        where p.seq <= (select max(t.posting) from offpath.ledger_trim t)
            and l.number > 1
            and not exists (
                select from offpath.ledger_link before
                where before.account = l.account and before.number = l.number - 1
            )
    ) as each
    group by each.currency
) as x

-- name: ledger_counts
-- How much there is.
select
    (select count(*) from offpath.ledger_account a where a.number > 0),
    (select count(*) from offpath.ledger_posting),
    (select count(*) from offpath.ledger_link)

-- name: ledger_checkpoints
-- Checkpoints, the latest first.
select id, root, signature, count, at, v, sum, kid, prev, posting
from offpath.ledger_checkpoint
where :before::text = ''
    or n < (select o.n from offpath.ledger_checkpoint o where o.id = :before::text)
order by n desc
limit :limit::bigint

-- name: ledger_leaves
-- Leaves of the last checkpoint by account.
select account, number, head, sum
from offpath.ledger_leaf
where account > :after::text
order by account
limit :limit::bigint

-- name: ledger_leaves_of
-- Leaves of these accounts.
select f.account, f.number, f.head, f.sum
from json_array_elements_text(:ids::text::json) as b (id)
join offpath.ledger_leaf f on f.account = b.id
where f.account > :after::text
order by f.account
limit :limit::bigint

-- name: ledger_moved
-- Accounts that are not as their leaf has them or have links behind their last one, from either side,
-- each read in the order of its ids; leaves only as far as the accounts of the page go.
with moved as materialized (
    select a.id
    from offpath.ledger_account a
    left join offpath.ledger_leaf f on f.account = a.id
    left join offpath.ledger_link l on l.account = a.id and l.number = f.number
    where a.id > :after::text
        and (a.number <> 0 or a.balance <> 0 or a.raised <> 0)
        and (
            f.number is distinct from a.number
            or f.head is distinct from a.head
            or f.sum is distinct from a.balance * offpath.ledger_grows(a.id)
            or l.hash is distinct from f.head
            or exists (
                select
                from offpath.ledger_link n
                where n.account = a.id and n.number > a.number
            )
        )
    order by a.id
    limit :limit::bigint
),
gone as (
    select f.account as id
    from offpath.ledger_leaf f
    where f.account > :after::text
        and f.account <= coalesce(
            (select max(m.id) from moved m having count(*) >= :limit::bigint),
            repeat(chr(1114111), 400)
        )
        and not exists (
            select
            from offpath.ledger_account a
            where a.id = f.account and (a.number <> 0 or a.balance <> 0 or a.raised <> 0)
        )
    order by f.account
    limit :limit::bigint
)
select id
from (select id from moved union select id from gone) as both_of_them
order by id
limit :limit::bigint

-- name: ledger_trims
-- Trims, the latest first.
select number, checkpoint, posting, until, at, file, archive, kept, kid, signature, done, postings, links, moved
from offpath.ledger_trim
order by number desc

-- part: standing
-- The last link up to a posting, by account. It is looked for from the first one on, where it is once a
-- trim is finished; an account that is younger is passed over by its first link.
cross join lateral (
    select p.seq
    from offpath.ledger_link f
    join offpath.ledger_posting p on p.id = f.posting
    where f.account = a.id
    order by f.number
    limit 1
) as begun
cross join lateral (
    select s.*, p.meta
    from offpath.ledger_link s
    join offpath.ledger_posting p on p.id = s.posting
    where s.account = a.id
        and p.seq <= :until::bigint
        and not exists (
            select
            from offpath.ledger_link n
            join offpath.ledger_posting np on np.id = n.posting
            where n.account = s.account and n.number = s.number + 1 and np.seq <= :until::bigint
        )
    order by s.number
    limit 1
) as l
where begun.seq <= :until::bigint and a.number > 0 and a.id > :after::text
order by a.id
limit :limit::bigint

-- name: ledger_standings
-- The last link of each account up to a posting, with its posting's metadata.
select
    l.account, l.number, l.posting, l.amount, array_to_json(l.entries)::text, l.balance, l.raised,
    l.prev, l.hash, l.source, l.at, l.meta
from offpath.ledger_account a
/* part: standing */

-- name: ledger_standings_of
-- The same of these accounts. The inner limit has each looked up by its id.
select
    l.account, l.number, l.posting, l.amount, array_to_json(l.entries)::text, l.balance, l.raised,
    l.prev, l.hash, l.source, l.at, l.meta
from json_array_elements_text(:ids::text::json) as b (id)
cross join lateral (
    select x.* from offpath.ledger_account x where x.id = b.id limit 1
) as a
/* part: standing */

-- name: ledger_retired_of
-- Postings of these ids that were removed, with the file that has them.
select r.id, r.trim, coalesce(t.file, ''), r.posting
from json_array_elements_text(:ids::text::json) as b (id)
join offpath.ledger_retired r on r.id = b.id
left join offpath.ledger_trim t on t.number = r.trim
where r.id > :after::text
order by r.id
limit :limit::bigint

-- name: ledger_kept
-- Postings that a trim keeps whole.
select r.id, r.trim, coalesce(t.file, ''), r.posting
from offpath.ledger_retired r
left join offpath.ledger_trim t on t.number = r.trim
where r.trim = :trim::bigint and r.posting is not null and r.id > :after::text
order by r.id
limit :limit::bigint
