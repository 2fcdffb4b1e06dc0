-- name: ledger_odd
-- Of the newest postings and the accounts that they moved, what no check would have let pass: the
-- triggers may have been off, or a restored table may have lost them.
with recent as materialized (
    select id from offpath.ledger_posting order by seq desc limit :most::bigint
),
linked as materialized (
    select l.posting, l.account, l.currency, l.amount
    from recent r
    join offpath.ledger_link l on l.posting = r.id
),
judged as (
    select r.id, 'has no links' as fault
    from recent r
    where not exists (select from linked l where l.posting = r.id)
    union all
    select l.posting, 'is off by ' || sum(l.amount) || ' ' || l.currency
    from linked l
    group by l.posting, l.currency
    having sum(l.amount) <> 0
    union all
    select t.account, case
        when a.id is null then 'has links and no balance'
        when a.guarded and a.balance < 0 then 'is below zero'
        else 'is not as its last link has it'
    end
    from (select distinct account from linked) as t
    left join offpath.ledger_account a on a.id = t.account
    left join lateral (
        select k.number, k.balance, k.raised, k.hash
        from offpath.ledger_link k
        where k.account = t.account
        order by k.number desc
        limit 1
    ) as k on true
    where a.id is null
        or (a.guarded and a.balance < 0)
        or (k.number, k.balance, k.raised, k.hash)
            is distinct from (a.number, a.balance, a.raised, a.head)
)
select id, fault from judged limit 10
