-- name: lease_sides
-- Hands out due rows of a kind, the longest due first; each is due again later and a version older.
with clock as materialized (
    select coalesce(
        :now::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint
    ) as now
),
due as materialized (
    select s.kind, s.id, s.due_at
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
    for no key update skip locked
),
leased as (
    update offpath.ledger_side s
    set version = s.version + 1, due_at = clock.now + :hold::bigint
    from due d, clock
    where s.kind = d.kind and s.id = d.id
    returning s.*, d.due_at as was_due
)
select coalesce(json_agg(l order by l.was_due, l.id), '[]')::text from leased l

-- name: lock_ledger_checkpoints
-- One at a time seals.
select pg_advisory_xact_lock(hashtextextended('offpath.checkpoint', 0))::text

-- name: add_ledger_checkpoint
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

-- name: clear_ledger_leaves
-- What was sealed before is not gone on from.
delete from offpath.ledger_leaf

-- name: put_ledger_leaves
-- Leaves that differ from the last checkpoint's.
insert into offpath.ledger_leaf (account, number, head, sum)
select b.account, b.number, b.head, b.sum
from json_to_recordset(:leaves::text::json)
    as b (account text, number bigint, head text, sum bigint)
on conflict (account) do update
set number = excluded.number, head = excluded.head, sum = excluded.sum

-- name: prune_ledger_attempts
-- Removes old attempts, each subject's last one kept.
with gone as (
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
    for update skip locked
),
removed as (
    delete from offpath.ledger_attempt a
    using gone g
    where a.subject = g.subject and a.at = g.at and a.seq = g.seq
    returning 1
)
select count(*) from removed

-- name: prune_ledger_keys
-- Removes old idempotency keys.
with gone as (
    select k.key
    from offpath.ledger_key k
    where k.at < :before::bigint
    order by k.at
    limit :limit::bigint
    for update skip locked
),
removed as (
    delete from offpath.ledger_key k using gone g where k.key = g.key returning 1
)
select count(*) from removed
