-- name: ledger_odd
-- Of the accounts that moved last and the newest postings, what no trigger would have let pass: a
-- balance that is not its last link's, entries that do not sum to zero.
with recent (id, account, number, amount) as (
    select id, account, number, amount from offpath_ledger_link order by id desc limit :most
),
touched (id) as (select distinct account from recent),
sealed (seq) as (select distinct id >> 16 from recent where (id & 65535) = 0),
judged (id, fault) as (
    select account.id, case
        when link.id is null then 'has no link ' || account.number
        when
            link.balance <> account.balance or link.hash <> account.head
            or link.raised <> account.raised
            then 'is not as its last link says'
        when account.guarded and account.balance < 0 then 'is below zero'
    end
    from touched
    cross join offpath_ledger_account as account on account.id = touched.id
    left join offpath_ledger_link as link
        on link.account = account.id and link.number = account.number
    union all
    select touched.id, 'has links and no balance'
    from touched
    where not exists (
        select 1 from offpath_ledger_account as account where account.id = touched.id
    )
    union all
    select coalesce(posting.id, 'posting ' || sealed.seq), case
        when posting.id is null then 'has links and no row'
        else (
            select 'does not sum to zero'
            from offpath_ledger_link as link
            left join offpath_ledger_account as account on account.id = link.account
            where link.id between sealed.seq * 65536 and sealed.seq * 65536 + 65535
            group by account.currency
            having
                sum(link.amount & 4294967295) & 4294967295 <> 0
                or sum(link.amount >> 32) + (sum(link.amount & 4294967295) >> 32) <> 0
        )
    end
    from sealed
    left join offpath_ledger_posting as posting on posting.seq = sealed.seq
)
select id, fault from judged where fault is not null limit 10
