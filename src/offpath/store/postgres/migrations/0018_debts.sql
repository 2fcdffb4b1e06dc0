-- Debts have a debtor: what a user owes to the platform is an account of his, <user>:owed, which a
-- debit raises.

create or replace function offpath.ledger_grows(account text) returns integer
language sql immutable parallel safe
return case
    when account in (
        'platform:trust_cash', 'platform:usd_clearing', 'platform:revenue_usd',
        'platform:stored_value', 'platform:receivable', 'platform:opening_equity',
        'platform:promo_float'
    ) then 1
    when right(account, 5) = ':owed' then 1
    else -1
end;

alter table offpath.ledger_account drop constraint ledger_account_kind;

alter table offpath.ledger_account add constraint ledger_account_kind check (
    case when id like 'platform:%'
        then kind in (
            'payout_reserve', 'settlement_accrual', 'trust_cash', 'usd_clearing', 'revenue_usd',
            'stored_value', 'receivable', 'opening_equity', 'promo_float', 'revenue',
            'netting_clearing'
        )
        else kind in ('spendable', 'escrow', 'earned', 'promo', 'owed')
    end
) not valid;

-- Whoever owes is found without a look at all accounts. Neither its key nor its condition changes
-- with a balance, so no posting has to write it.
create index ledger_account_owed on offpath.ledger_account (id) where kind = 'owed';
