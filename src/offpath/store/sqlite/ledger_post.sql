-- name: ledger_accounts_of
-- Accounts by id.
select account.id, account.balance, account.raised, account.head, account.number
from json_each(:ids) as wanted
cross join offpath_ledger_account as account
where account.id = wanted.value

-- name: ledger_sides_of
-- Rows by kind and id.
select
    side.kind, side.id, side.owner, side.state, side.version, side.due_at, side.attempts,
    side.amount, side.anchor, side.unique_key, side.created_at, side.touched_at, side.body
from json_each(:wanted) as wanted
cross join offpath_ledger_side as side indexed by offpath_ledger_side_id
where side.kind = wanted.value ->> 0 and side.id = wanted.value ->> 1

-- name: ledger_holders_of
-- Rows by kind and unique key.
select
    side.kind, side.id, side.owner, side.state, side.version, side.due_at, side.attempts,
    side.amount, side.anchor, side.unique_key, side.created_at, side.touched_at, side.body
from json_each(:wanted) as wanted
cross join offpath_ledger_side as side indexed by offpath_ledger_side_holder
where side.kind = wanted.value ->> 0 and side.unique_key = wanted.value ->> 1

-- name: ledger_newest_of
-- Of a kind and an owner the row that was touched last.
select
    side.kind, side.id, side.owner, side.state, side.version, side.due_at, side.attempts,
    side.amount, side.anchor, side.unique_key, side.created_at, side.touched_at, side.body
from json_each(:wanted) as wanted
cross join offpath_ledger_side as side
where
    side.seq = (
        select owned.seq from offpath_ledger_side as owned indexed by offpath_ledger_side_owner
        where owned.kind = wanted.value ->> 0 and owned.owner = wanted.value ->> 1
        order by owned.touched_at desc, owned.seq desc
        limit 1
    )

-- name: ledger_paid_of
-- Of each owner the payout that was touched last.
select
    side.kind, side.id, side.owner, side.state, side.version, side.due_at, side.attempts,
    side.amount, side.anchor, side.unique_key, side.created_at, side.touched_at, side.body
from json_each(:wanted) as wanted
cross join offpath_ledger_side as side
where
    side.seq = (
        select owned.seq
        from offpath_ledger_side as owned indexed by offpath_ledger_side_paid
        where owned.kind = 'payout' and owned.owner = wanted.value ->> 1
        order by owned.touched_at desc, owned.seq desc
        limit 1
    )

-- name: ledger_keys_of
-- Idempotency keys.
select known.key, known.fingerprint, known.receipt, known.at
from json_each(:keys) as wanted
cross join offpath_ledger_key as known indexed by sqlite_autoindex_offpath_ledger_key_1
where known.key = wanted.value

-- name: ledger_lots_of
-- What raised accounts after a time, newest first: link by link from the last one, no further than
-- the balance reaches or the time.
with recursive step (account, since, side, number, rest, change, at, source) as (
    select
        account.id, wanted.value ->> 1, account.side, link.number,
        account.balance - max(account.side * link.amount, 0), account.side * link.amount,
        posting.at, posting.source
    from json_each(:wanted) as wanted
    cross join offpath_ledger_account as account
    cross join offpath_ledger_link as link indexed by offpath_ledger_link_chain
    cross join offpath_ledger_posting as posting
    where
        account.id = wanted.value ->> 0 and account.balance > 0
        and link.account = account.id and link.number = account.number
        and posting.seq = link.id >> 16
    union all
    select
        step.account, step.since, step.side, link.number,
        step.rest - max(step.side * link.amount, 0), step.side * link.amount,
        posting.at, posting.source
    from step
    cross join offpath_ledger_link as link indexed by offpath_ledger_link_chain
    cross join offpath_ledger_posting as posting
    where
        step.rest > 0 and step.at > step.since
        and link.account = step.account and link.number = step.number - 1
        and posting.seq = link.id >> 16
)
select account, change, at, source
from step
where change > 0 and at > since
order by account, number desc

-- name: ledger_lots_of_wallets
-- The same of wallets from which people spend: from one link that raised them to the one before it,
-- however many times they spent in between.
with recursive step (account, since, number, rest, change, at, source) as (
    select
        account.id, wanted.value ->> 1, link.number, account.balance + link.amount, -link.amount,
        posting.at, posting.source
    from json_each(:wanted) as wanted
    cross join offpath_ledger_account as account
    cross join offpath_ledger_link as link
    cross join offpath_ledger_posting as posting
    where
        account.id = wanted.value ->> 0 and account.balance > 0
        and link.id = (
            select raising.id
            from offpath_ledger_link as raising indexed by offpath_ledger_link_raising
            where
                raising.account = account.id
                and raising.amount < 0 and substr(raising.account, -10) = ':spendable'
            order by raising.number desc
            limit 1
        )
        and posting.seq = link.id >> 16
    union all
    select
        step.account, step.since, link.number, step.rest + link.amount, -link.amount,
        posting.at, posting.source
    from step
    cross join offpath_ledger_link as link
    cross join offpath_ledger_posting as posting
    where
        step.rest > 0 and step.at > step.since
        and link.id = (
            select raising.id
            from offpath_ledger_link as raising indexed by offpath_ledger_link_raising
            where
                raising.account = step.account and raising.number < step.number
                and raising.amount < 0 and substr(raising.account, -10) = ':spendable'
            order by raising.number desc
            limit 1
        )
        and posting.seq = link.id >> 16
)
select account, change, at, source
from step
where at > since
order by account, number desc

-- name: ledger_raised_of
-- What raised accounts after a time: looked for by halves along the chain, whose times do not fall. A
-- chain that was trimmed begins later; what its first link goes on from was before the time.
with recursive place (account, since, low, high) as (
    select
        account.id, wanted.value ->> 1,
        coalesce(
            (
                select min(first.number) - 1
                from offpath_ledger_link as first indexed by offpath_ledger_link_chain
                where first.account = account.id
            ),
            0
        ),
        account.number
    from json_each(:wanted) as wanted
    cross join offpath_ledger_account as account
    where account.id = wanted.value ->> 0
    union all
    select
        place.account, place.since,
        case when posting.at <= place.since then link.number else place.low end,
        case when posting.at <= place.since then place.high else link.number - 1 end
    from place
    cross join offpath_ledger_link as link indexed by offpath_ledger_link_chain
    cross join offpath_ledger_posting as posting
    where
        place.low < place.high
        and link.account = place.account and link.number = (place.low + place.high + 1) / 2
        and posting.seq = link.id >> 16
)
select
    place.account, place.since,
    account.raised - coalesce((
        select link.raised from offpath_ledger_link as link indexed by offpath_ledger_link_chain
        where link.account = place.account and link.number = place.low
    ), (
        select first.raised - max(account.side * first.amount, 0)
        from offpath_ledger_link as first indexed by offpath_ledger_link_chain
        where first.account = place.account and first.number = place.low + 1
    ), 0)
from place
cross join offpath_ledger_account as account
where place.low = place.high and account.id = place.account

-- name: ledger_attempts_of
-- The sums of subjects' attempts after a time, from the first that is: what was before it may have
-- been forgotten or replaced.
select
    wanted.value ->> 0, wanted.value ->> 1,
    last.total - coalesce(
        (
            select first.total - first.amount from offpath_ledger_attempt as first
            where first.subject = wanted.value ->> 0 and first.at > wanted.value ->> 1
            order by first.at, first.seq
            limit 1
        ),
        last.total
    )
from json_each(:wanted) as wanted
cross join offpath_ledger_attempt as last
where
    last.seq = (
        select latest.seq from offpath_ledger_attempt as latest
        where latest.subject = wanted.value ->> 0
        order by latest.at desc, latest.seq desc
        limit 1
    )

-- name: ledger_subjects_of
-- The last attempt of each subject.
select last.subject, last.key, last.amount, last.at, last.total
from json_each(:subjects) as wanted
cross join offpath_ledger_attempt as last
where
    last.seq = (
        select latest.seq from offpath_ledger_attempt as latest
        where latest.subject = wanted.value
        order by latest.at desc, latest.seq desc
        limit 1
    )

-- name: ledger_attempted_of
-- When subjects and keys were recorded.
select attempt.subject, attempt.key, attempt.at
from json_each(:wanted) as wanted
cross join offpath_ledger_attempt as attempt indexed by offpath_ledger_attempt_key
where attempt.subject = wanted.value ->> 0 and attempt.key = wanted.value ->> 1

-- name: make_accounts
-- Accounts that something is about to be posted to.
insert into offpath_ledger_account (id, kind, currency, side, guarded)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
from json_each(:accounts)
returning id

-- name: drop_bare_postings
-- Postings without links do not keep the id that another needs, such as that of a payout's end.
delete from offpath_ledger_posting
where
    id in (select value from json_each(:ids))
    and not exists (
        select 1 from offpath_ledger_link as link
        where
            link.id between offpath_ledger_posting.seq * 65536
            and offpath_ledger_posting.seq * 65536 + 65535
    )

-- name: ledger_draft_clear
-- Nothing of ours is ever left there.
delete from offpath_ledger_draft

-- name: ledger_draft_add
-- The links of the next postings, which are about to be sealed in this order.
insert into offpath_ledger_draft (id, account, number, amount, balance, hash, entries)
select
    last.id + (value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
    value ->> 6
from
    (select coalesce(max(seq), 0) * 65536 as id from offpath_ledger_posting) as last
    cross join json_each(:batch)

-- name: ledger_posting_add
-- Seals postings, numbered as they stand: a trigger makes their drafts links and moves the
-- accounts; in another order they would not fit.
insert into offpath_ledger_posting (id, at, source, meta)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3
from json_each(:batch)

-- name: ledger_side_add
-- New rows.
insert into offpath_ledger_side (
    kind, id, owner, state, version, due_at, attempts, amount, anchor, unique_key, created_at,
    touched_at, body
)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12
from json_each(:batch)

-- name: give_up_unique_keys
-- Gives up the keys of rows that are about to be written, so that they can change hands.
update offpath_ledger_side indexed by offpath_ledger_side_id set unique_key = null
from (select value from json_each(:sides) limit -1) as one
where
    offpath_ledger_side.kind = one.value ->> 0 and offpath_ledger_side.id = one.value ->> 1
    and offpath_ledger_side.unique_key is not null
    and offpath_ledger_side.unique_key is not one.value ->> 9

-- name: change_sides
-- Rows as they are from now on, if nobody else has written them. A batch with a limit is read
-- first, whatever the planner believes of the table.
update offpath_ledger_side indexed by offpath_ledger_side_id set
    owner = one.value ->> 2,
    state = one.value ->> 3,
    version = one.value ->> 4,
    due_at = one.value ->> 5,
    attempts = one.value ->> 6,
    amount = one.value ->> 7,
    anchor = one.value ->> 8,
    unique_key = one.value ->> 9,
    created_at = one.value ->> 10,
    touched_at = one.value ->> 11,
    body = one.value ->> 12
from (select value from json_each(:sides) limit -1) as one
where
    offpath_ledger_side.kind = one.value ->> 0 and offpath_ledger_side.id = one.value ->> 1
    and offpath_ledger_side.version = one.value ->> 13
returning kind, id

-- name: ledger_key_add
-- Idempotency keys that are used up.
insert into offpath_ledger_key (key, fingerprint, receipt, at)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3
from json_each(:batch)

-- name: ledger_attempt_add
-- What somebody tried to move; tried again after a long time, it takes the place of the old one.
insert or replace into offpath_ledger_attempt (subject, key, amount, at, total)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
from json_each(:batch)

-- name: fall_attempts
-- One will count later: those after it no longer have it in their totals.
update offpath_ledger_attempt as later
set total = later.total - old.amount
from (
    select at, seq, amount from offpath_ledger_attempt where subject = :subject and key = :key
) as old
where later.subject = :subject and later.at >= old.at and (later.at, later.seq) > (old.at, old.seq)

-- name: move_attempt
-- It becomes the last one of its subject.
update offpath_ledger_attempt as old
set
    seq = (select max(seq) + 1 from offpath_ledger_attempt),
    at = max(:at, last.at),
    total = last.total + case when last.seq = old.seq then 0 else old.amount end
from (
    select latest.seq, latest.at, latest.total from offpath_ledger_attempt as latest
    where latest.subject = :subject
    order by latest.at desc, latest.seq desc
    limit 1
) as last
where old.subject = :subject and old.key = :key
