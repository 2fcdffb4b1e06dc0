-- name: due_sides
-- The store's time in milliseconds, and due rows of a kind, the longest due first, that nobody else
-- holds: these stay as they are until the end of this transaction.
with clock as materialized (
    select coalesce(
        :now::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint
    ) as now
)
select
    (select clock.now from clock),
    s.kind, s.id, s.owner, s.state, s.version, s.due_at, s.attempts, s.amount, s.anchor,
    s.unique_key, s.created_at, s.touched_at, s.body
from offpath.ledger_side s
where s.kind = :kind::text
    and s.due_at <= (select clock.now from clock)
    and (
        (s.kind = 'payout' and s.state in ('RESERVED', 'SUBMITTED'))
        or (s.kind = 'subscription' and s.state = 'ACTIVE')
        or (s.kind = 'promo' and s.state = 'OPEN')
    )
order by s.due_at, s.id
limit :limit::bigint
for no key update of s skip locked

-- name: hold_sides
-- These rows are due at this time, and a version older.
update offpath.ledger_side s
set due_at = :until::bigint, version = s.version + 1
where s.kind = :kind::text
    and s.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)))

-- name: lock_checkpoints
-- One at a time seals.
select pg_advisory_xact_lock(hashtextextended('offpath.checkpoint', 0))::text

-- name: add_checkpoint
-- Writes a checkpoint if it follows the last one.
insert into offpath.ledger_checkpoint (
    id, root, signature, count, at, v, sum, kid, prev, posting
)
select :id::text, :root::text, :signature::text, :count::bigint, :at::bigint, :v::int, :sum::bigint,
    :kid::text, :prev::text, :posting::bigint
where :prev::text is not distinct from (
    select c.id from offpath.ledger_checkpoint c order by c.n desc limit 1
)
on conflict ((coalesce(prev, ''))) do nothing
returning 1

-- name: clear_leaves
-- What was sealed before is not gone on from.
delete from offpath.ledger_leaf

-- name: put_leaves
-- Leaves that differ from the last checkpoint's.
insert into offpath.ledger_leaf (account, number, head, sum)
select b.account, b.number, b.head, b.sum
from json_to_recordset(:batch::text::json)
    as b (account text, number bigint, head text, sum bigint)
on conflict (account) do update
set number = excluded.number, head = excluded.head, sum = excluded.sum

-- name: old_attempts
-- Attempts from before a time that have another of their subject behind them.
select a.subject, a.at, a.seq
from offpath.ledger_attempt a
where a.at < :before::bigint
    and exists (
        select
        from offpath.ledger_attempt later
        where later.subject = a.subject and (later.at, later.seq) > (a.at, a.seq)
    )
order by a.at
limit :limit::bigint

-- name: old_keys
-- Idempotency keys from before a time.
select k.key
from offpath.ledger_key k
where k.at < :before::bigint
order by k.at
limit :limit::bigint

-- name: prune_attempts
-- Removes attempts that no window reaches. One that counts anew has another number; one that somebody
-- has locked is left for the next time.
with gone as materialized (
    select a.subject, a.at, a.seq
    from jsonb_array_elements(:attempts::text::jsonb) as b
    join offpath.ledger_attempt a
        on a.subject = b.value ->> 0
        and a.at = (b.value ->> 1)::bigint
        and a.seq = (b.value ->> 2)::bigint
    order by a.subject, a.at, a.seq
    for update of a skip locked
)
delete from offpath.ledger_attempt a
using gone g
where a.subject = g.subject and a.at = g.at and a.seq = g.seq
returning a.seq

-- name: prune_keys
-- Removes idempotency keys, unless they were used again; one that is locked is left.
with gone as materialized (
    select k.key
    from offpath.ledger_key k
    where k.key = any (array(select jsonb_array_elements_text(:keys::text::jsonb)))
        and k.at < :before::bigint
    order by k.key
    for update skip locked
)
delete from offpath.ledger_key k using gone g where k.key = g.key
returning k.key
