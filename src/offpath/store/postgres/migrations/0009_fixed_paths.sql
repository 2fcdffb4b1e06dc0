-- Names in our functions mean what they meant when they were written.
--
-- A function without a path of its own looks its names up in the caller's, and a function or operator
-- that fits better is taken from any schema of that path. Whoever may make one there would have it
-- called in a worker's session.

alter function offpath.may_hold(uuid, text, jsonb, timestamptz, text, timestamptz)
    set search_path = pg_catalog, pg_temp;
alter function offpath.enqueue(
    text, jsonb, text, integer, interval, timestamptz, text, jsonb
) set search_path = pg_catalog, pg_temp;
alter function offpath.announce() set search_path = pg_catalog, pg_temp;
alter function offpath.keep_group() set search_path = pg_catalog, pg_temp;
alter function offpath.leave_signal() set search_path = pg_catalog, pg_temp;
alter function offpath.limit_job() set search_path = pg_catalog, pg_temp;
alter function offpath.ledger_expect(bigint, bigint) set search_path = pg_catalog, pg_temp;
alter function offpath.ledger_keep() set search_path = pg_catalog, pg_temp;
alter function offpath.ledger_turn() set search_path = pg_catalog, pg_temp;
alter function offpath.ledger_account_refuse() set search_path = pg_catalog, pg_temp;
alter function offpath.ledger_link_check() set search_path = pg_catalog, pg_temp;
alter function offpath.ledger_account_check() set search_path = pg_catalog, pg_temp;

-- These are called for each row and are put into the statement that calls them, which a path of their
-- own would prevent. A body that is parsed now needs none: its names are looked up only here.
create or replace function offpath.new_id() returns uuid
language sql volatile
return encode(
    set_bit(
        set_bit(
            overlay(
                uuid_send(gen_random_uuid())
                placing substring(
                    int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3
                )
                from 1 for 6
            ),
            52, 1
        ),
        53, 1
    ),
    'hex'
)::uuid;

create or replace function offpath.ledger_currency(account text) returns text
language sql immutable parallel safe
return case
    when account in ('platform:trust_cash', 'platform:usd_clearing', 'platform:revenue_usd')
        then 'USD'
    else 'CREDIT'
end;

create or replace function offpath.ledger_grows(account text) returns integer
language sql immutable parallel safe
return case
    when account in (
        'platform:trust_cash', 'platform:usd_clearing', 'platform:revenue_usd',
        'platform:stored_value', 'platform:receivable', 'platform:opening_equity',
        'platform:promo_float'
    ) then 1
    else -1
end;

create or replace function offpath.ledger_guarded(account text) returns boolean
language sql immutable parallel safe
return account not like 'platform:%'
    or account in ('platform:payout_reserve', 'platform:settlement_accrual');
