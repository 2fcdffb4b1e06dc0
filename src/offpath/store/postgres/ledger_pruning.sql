-- name: prune_ledger_attempts
-- Removes old attempts, each subject's last one kept.
with gone as materialized (
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
with gone as materialized (
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
