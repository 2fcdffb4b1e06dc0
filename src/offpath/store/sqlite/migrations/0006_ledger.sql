-- The ledger: accounts, postings and their links, rows beside them, keys, attempts, checkpoints.
--
-- Times here are whole milliseconds since 1970-01-01 UTC, amounts are minor units.
--
-- A posting comes to be in two statements: its links are drafted, then its row is inserted, and the
-- trigger on that makes the drafts its links, or refuses. There is no other way to a link, so no
-- link, no unbalanced posting and no moved balance can be written alone. Nothing of it relies on
-- foreign keys, which SQLite leaves to each connection.

create table offpath_ledger_account (
    id text primary key,
    kind text not null,
    currency text not null,
    -- 1: a debit, which is a positive entry, raises it; -1: a credit does.
    side integer not null,
    guarded integer not null,
    balance integer not null default 0,
    raised integer not null default 0 check (raised >= 0),
    head text not null default '0000000000000000000000000000000000000000000000000000000000000000',
    number integer not null default 0 check (number >= 0),
    constraint never_below_zero check (guarded = 0 or balance >= 0)
) strict, without rowid;

create table offpath_ledger_posting (
    -- The order of the commits.
    seq integer primary key,
    id text not null unique,
    at integer not null,
    source text,
    meta text not null check (json_valid(meta))
) strict;

-- A link's id is its posting's seq times 65,536 plus its place among the posting's links, which are
-- ordered by account: so they lie side by side and need no index of their own.
create table offpath_ledger_link (
    id integer primary key,
    account text not null,
    -- A time that falls, when a clock was set back, does not matter: this is the order.
    number integer not null check (number >= 1),
    amount integer not null,
    -- The amounts of its entries as JSON, where they are not one of `amount`.
    entries text,
    balance integer not null,
    raised integer not null,
    prev text not null check (length(prev) = 64),
    hash text not null check (length(hash) = 64)
) strict;

create unique index offpath_ledger_link_chain on offpath_ledger_link (account, number);

-- What raised the wallets from which people spend: few links, among many that do not.
create index offpath_ledger_link_raising on offpath_ledger_link (account, number)
where amount < 0 and substr(account, -10) = ':spendable';

-- What is about to be posted, under the ids that the links will have; empty between transactions.
create table offpath_ledger_draft (
    id integer primary key,
    account text not null,
    number integer not null,
    amount integer not null,
    balance integer not null,
    hash text not null,
    entries text
) strict;

create table offpath_ledger_side (
    seq integer primary key,
    kind text not null,
    id text not null,
    owner text not null,
    state text not null,
    version integer not null check (version >= 1),
    due_at integer,
    attempts integer not null default 0 check (attempts >= 0),
    amount integer,
    anchor text,
    unique_key text,
    created_at integer not null,
    touched_at integer not null,
    body text not null check (json_valid(body)),
    constraint known_state check (
        (kind = 'sale' and state = 'SOLD')
        or (kind = 'entitlement' and (state = 'OWNED' or state = 'REVOKED'))
        or (
            kind = 'payout'
            and (
                state = 'RESERVED' or state = 'SUBMITTED' or state = 'SETTLED' or state = 'FAILED'
            )
        )
        or (
            kind = 'subscription'
            and (state = 'ACTIVE' or state = 'LAPSED' or state = 'CANCELED')
        )
        or (kind = 'promo' and (state = 'OPEN' or state = 'REVERSED' or state = 'DEAD'))
    )
) strict;

create unique index offpath_ledger_side_id on offpath_ledger_side (kind, id);

create unique index offpath_ledger_side_holder on offpath_ledger_side (kind, unique_key)
where unique_key is not null;

create index offpath_ledger_side_owner on offpath_ledger_side (kind, owner, id);

create index offpath_ledger_side_due on offpath_ledger_side (kind, due_at, id)
where due_at is not null
    and (state = 'RESERVED' or state = 'SUBMITTED' or state = 'ACTIVE' or state = 'OPEN');

-- Who asks for a payout is asked when he had the last one.
create index offpath_ledger_side_paid on offpath_ledger_side (owner, touched_at)
where kind = 'payout';

-- The quotes that are owed.
create index offpath_ledger_side_quote on offpath_ledger_side (amount)
where kind = 'payout' and (state = 'RESERVED' or state = 'SUBMITTED');

create table offpath_ledger_key (
    seq integer primary key,
    key text not null unique,
    fingerprint text not null,
    receipt text not null check (json_valid(receipt)),
    at integer not null
) strict;

create table offpath_ledger_attempt (
    seq integer primary key,
    subject text not null,
    key text not null,
    amount integer not null,
    at integer not null,
    total integer not null
) strict;

create unique index offpath_ledger_attempt_key on offpath_ledger_attempt (subject, key);

create index offpath_ledger_attempt_at on offpath_ledger_attempt (subject, at);

create table offpath_ledger_checkpoint (
    seq integer primary key,
    id text not null unique,
    root text not null,
    signature text not null,
    count integer not null check (count >= 0),
    at integer not null,
    v integer not null,
    sum integer,
    kid text,
    prev text
) strict;

create table offpath_ledger_leaf (
    account text primary key,
    number integer not null check (number >= 1),
    head text not null check (length(head) = 64),
    sum integer not null
) strict, without rowid;

-- -- accounts --------------------------------------------------------------------------------

create trigger offpath_ledger_account_new before insert on offpath_ledger_account
begin
    select case
        -- A REPLACE removes the row that is in its way without any trigger.
        when exists (select 1 from offpath_ledger_account as known where known.id = new.id)
            then raise(abort, 'offpath: the ledger has this account')
        when
            new.balance <> 0 or new.raised <> 0 or new.number <> 0
            or new.head <> '0000000000000000000000000000000000000000000000000000000000000000'
            then raise(abort, 'offpath: an account of the ledger begins empty')
    end;
end;

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
            new.kind in ('spendable', 'earned', 'promo', 'escrow')
            and substr(new.id, -length(new.kind) - 1) = ':' || new.kind
            and substr(new.id, 1, 9) <> 'platform:'
            and new.currency = 'CREDIT' and new.side = -1 and new.guarded = 1
    end is not 1
begin
    select raise(abort, 'offpath: the chart of the ledger knows no such account');
end;

create trigger offpath_ledger_account_fixed
before update of id, kind, currency, side, guarded on offpath_ledger_account
begin
    select raise(abort, 'offpath: what an account of the ledger is does not change');
end;

create trigger offpath_ledger_account_moved
before update of balance, raised, head, number on offpath_ledger_account
when
    new.number <> old.number + 1
    or not exists (
        select 1 from offpath_ledger_link as link
        where
            link.account = new.id and link.number = new.number and link.hash = new.head
            and link.balance = new.balance and link.raised = new.raised
    )
begin
    select raise(abort, 'offpath: an account of the ledger is as its last link says');
end;

create trigger offpath_ledger_account_kept before delete on offpath_ledger_account
begin
    select raise(abort, 'offpath: an account of the ledger is not removed');
end;

-- -- postings --------------------------------------------------------------------------------

create trigger offpath_ledger_draft_new before insert on offpath_ledger_draft
when exists (select 1 from offpath_ledger_posting as posting where posting.seq = new.id >> 16)
begin
    select raise(abort, 'offpath: this posting of the ledger is sealed');
end;

create trigger offpath_ledger_draft_fixed before update on offpath_ledger_draft
begin
    select raise(abort, 'offpath: a draft of the ledger does not change');
end;

create trigger offpath_ledger_posting_new before insert on offpath_ledger_posting
when
    exists (select 1 from offpath_ledger_posting as known where known.id = new.id)
    or exists (select 1 from offpath_ledger_posting as known where known.seq = new.seq)
begin
    select raise(abort, 'offpath: the ledger has this posting');
end;

-- Drafts exist together with their posting only while the next trigger runs.
create trigger offpath_ledger_link_new before insert on offpath_ledger_link
when
    not exists (select 1 from offpath_ledger_draft as draft where draft.id = new.id)
    or not exists (
        select 1 from offpath_ledger_posting as posting where posting.seq = new.id >> 16
    )
begin
    select raise(abort, 'offpath: a link of the ledger comes with its posting only');
end;

-- Whatever a constraint below could find is found here: who inserts "or ignore" or "or replace" has
-- the statements of a trigger go on after a constraint, but not after a raise.
create trigger offpath_ledger_posting_seal after insert on offpath_ledger_posting
begin
    select case
        when
            new.seq <> 1
            and not exists (
                select 1 from offpath_ledger_posting as before where before.seq = new.seq - 1
            )
            then raise(abort, 'offpath: postings of the ledger are numbered without a gap')
        when count(*) = 0
            then raise(abort, 'offpath: a posting of the ledger has links')
        when count(distinct draft.account) <> count(*)
            then raise(abort, 'offpath: a posting of the ledger has one link for each account')
        when
            sum(
                length(draft.hash) <> 64
                or draft.number is not account.number + 1
                or draft.balance is not account.balance + account.side * draft.amount
                or (
                    draft.entries is not null
                    and draft.amount
                    is not (select sum(one.value) from json_each(draft.entries) as one)
                )
            ) > 0
            then raise(abort, 'offpath: a link of the ledger follows the last one of its account')
        when sum(account.guarded and draft.balance < 0) > 0
            then raise(abort, 'offpath: a guarded account of the ledger is never below zero')
        -- Both currencies together, and one of them. By halves of 32 bits: a sum on the way may
        -- have more than 64.
        when
            sum(draft.amount & 4294967295) & 4294967295 <> 0
            or sum(draft.amount >> 32) + (sum(draft.amount & 4294967295) >> 32) <> 0
            or sum(draft.amount & 4294967295) filter (where account.currency = 'USD')
            & 4294967295 <> 0
            or sum(draft.amount >> 32) filter (where account.currency = 'USD')
            + (sum(draft.amount & 4294967295) filter (where account.currency = 'USD') >> 32) <> 0
            then raise(abort, 'offpath: entries of a posting sum to zero in each currency')
    end
    from offpath_ledger_draft as draft
    left join offpath_ledger_account as account on account.id = draft.account
    where draft.id between new.seq * 65536 and new.seq * 65536 + 65535;
    insert into offpath_ledger_link (
        id, account, number, amount, entries, balance, raised, prev, hash
    )
    select
        draft.id, draft.account, draft.number, draft.amount, draft.entries, draft.balance,
        account.raised + max(account.side * draft.amount, 0), account.head, draft.hash
    from offpath_ledger_draft as draft
    cross join offpath_ledger_account as account
    where
        draft.id between new.seq * 65536 and new.seq * 65536 + 65535
        and account.id = draft.account;
    update offpath_ledger_account set
        balance = link.balance,
        raised = link.raised,
        head = link.hash,
        number = link.number
    from offpath_ledger_link as link
    where
        link.id between new.seq * 65536 and new.seq * 65536 + 65535
        and offpath_ledger_account.id = link.account;
    delete from offpath_ledger_draft
    where id between new.seq * 65536 and new.seq * 65536 + 65535;
end;

create trigger offpath_ledger_posting_fixed before update on offpath_ledger_posting
begin
    select raise(abort, 'offpath: a posting of the ledger does not change');
end;

create trigger offpath_ledger_posting_kept before delete on offpath_ledger_posting
begin
    select raise(abort, 'offpath: a posting of the ledger is not removed');
end;

create trigger offpath_ledger_link_fixed before update on offpath_ledger_link
begin
    select raise(abort, 'offpath: a link of the ledger does not change');
end;

create trigger offpath_ledger_link_kept before delete on offpath_ledger_link
begin
    select raise(abort, 'offpath: a link of the ledger is not removed');
end;

-- -- rows beside ------------------------------------------------------------------------------

-- A key that is given up for another row's sake leaves the version to the write that follows.
create trigger offpath_ledger_side_changed before update on offpath_ledger_side
when
    new.kind <> old.kind or new.id <> old.id
    or new.version < old.version + (new.unique_key is not null or old.unique_key is null)
begin
    select raise(abort, 'offpath: each write raises the version of a row of the ledger');
end;

-- -- checkpoints ------------------------------------------------------------------------------

create trigger offpath_ledger_checkpoint_new before insert on offpath_ledger_checkpoint
when
    exists (
        select 1 from offpath_ledger_checkpoint as known
        where known.id = new.id or known.seq = new.seq
    )
    or new.prev is not (
        select last.id from offpath_ledger_checkpoint as last order by last.seq desc limit 1
    )
begin
    select raise(abort, 'offpath: a checkpoint of the ledger follows the last one');
end;

create trigger offpath_ledger_checkpoint_fixed before update on offpath_ledger_checkpoint
begin
    select raise(abort, 'offpath: a checkpoint of the ledger does not change');
end;

create trigger offpath_ledger_checkpoint_kept before delete on offpath_ledger_checkpoint
begin
    select raise(abort, 'offpath: a checkpoint of the ledger is not removed');
end;
