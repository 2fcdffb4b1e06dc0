-- Debts have a debtor: what a user owes to the platform is an account of his, <user>:owed, which a
-- debit raises.

drop trigger offpath_ledger_account_chart;

create trigger offpath_ledger_account_chart before insert on offpath_ledger_account
when
    case
        when new.id = 'platform:' || new.kind then
            new.side = case
                when new.kind in (
                    'trust_cash', 'usd_clearing', 'revenue_usd', 'stored_value', 'receivable',
                    'opening_equity', 'promo_float'
                ) then 1
                when new.kind in (
                    'payout_reserve', 'settlement_accrual', 'revenue', 'netting_clearing'
                ) then -1
            end
            and new.currency = case
                when new.kind in ('trust_cash', 'usd_clearing', 'revenue_usd') then 'USD'
                else 'CREDIT'
            end
            and new.guarded = (new.kind in ('payout_reserve', 'settlement_accrual'))
        else
            new.kind in ('spendable', 'earned', 'promo', 'escrow', 'owed')
            and substr(new.id, -length(new.kind) - 1) = ':' || new.kind
            and substr(new.id, 1, 9) <> 'platform:'
            and new.currency = 'CREDIT'
            and new.side = case when new.kind = 'owed' then 1 else -1 end
            and new.guarded = 1
    end is not 1
begin
    select raise(abort, 'offpath: the chart of the ledger knows no such account');
end;

create index offpath_ledger_account_owed on offpath_ledger_account (id) where kind = 'owed';
