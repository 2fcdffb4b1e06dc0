"""Rows of the log, of a router and of a ledger for the pages of the dashboard, written by SQL."""

from __future__ import annotations

from typing import Any, Final, LiteralString

import psycopg

from offpath.app import App
from offpath.economy import Actor, Economy, TopUp, credits

EVENTS: Final = 20_000
POSTINGS: Final = 20_000
ACCOUNTS: Final = 5_000
SIDES: Final = 10_000
ROWS: Final[dict[LiteralString, int]] = {
    # what a router has not looked at yet, and what it decided
    """
    insert into offpath.log (id, at, slot, domain, type, stream, payload)
    select 'event' || n, now() - interval '1 hour', n, 'orders', 'paid', 'orders', '{}'
    from generate_series(1, %s) n
    """: EVENTS,
    """
    insert into offpath.attempt (router, event, number, position, at, status, route)
    select 'orders', 'event' || n, 1, n, now(), case n %% 3 when 0 then 'failed' else 'sent' end,
        'call'
    from generate_series(1, %s) n
    """: EVENTS,
    # one account with a long statement, and many that moved once
    """
    insert into offpath.ledger_posting (id, at, meta)
    select 'copy' || n, p.at, p.meta
    from (select at, meta from offpath.ledger_posting order by seq limit 1) p,
        generate_series(2, %s) n
    """: POSTINGS,
    """
    insert into offpath.ledger_link (
        number, amount, balance, raised, at, account, posting, entries, prev, hash
    )
    select n, l.amount, l.balance, l.raised, l.at, l.account, 'copy' || n, l.entries, l.hash, l.hash
    from offpath.ledger_link l, generate_series(2, %s) n
    where l.account = 'ann:spendable' and l.number = 1
    """: POSTINGS,
    """
    insert into offpath.ledger_link (
        number, amount, balance, raised, at, account, posting, entries, prev, hash
    )
    select 1, l.amount, l.balance, l.raised, l.at, 'user' || n || ':spendable', 'other' || n,
        l.entries, l.prev, l.hash
    from offpath.ledger_link l, generate_series(1, %s) n
    where l.account = 'ann:spendable' and l.number = 1
    """: ACCOUNTS,
    """
    insert into offpath.ledger_account (id, number, balance, raised, head)
    select 'user' || n || ':spendable', 1, a.balance, a.raised, a.head
    from offpath.ledger_account a, generate_series(1, %s) n
    where a.id = 'ann:spendable'
    """: ACCOUNTS,
    """
    update offpath.ledger_account set number = %s where id = 'ann:spendable'
    """: POSTINGS,
    """
    insert into offpath.ledger_side (
        kind, id, owner, state, amount, version, attempts, created_at, touched_at, body
    )
    select 'payout', 'pay_' || n, 'user' || n %% 50,
        (array['RESERVED', 'SUBMITTED', 'SETTLED', 'FAILED'])[1 + n %% 4], 100, 1, 0,
        1790000000000 + n, 1790000000000 + n, '{"reserve": 2000, "rateId": "payout"}'
    from generate_series(1, %s) n
    """: SIDES,
    """
    insert into offpath.ledger_side (
        kind, id, owner, state, version, attempts, created_at, touched_at, body
    )
    select 'subscription', 'sub_' || n, 'user' || n %% 50,
        (array['ACTIVE', 'LAPSED', 'CANCELED'])[1 + n %% 3], 1, 0,
        1790000000000 + n, 1790000000000 + n,
        '{"seller": "sel", "sku": "plan", "price": 500, "period": 86400000, "number": 1, '
            || '"paidUntil": 1790000000000}'
    from generate_series(1, %s) n
    """: SIDES,
}
"""Statements with the number of rows of each."""
_TABLES: Final = (
    "log", "attempt", "ledger_posting", "ledger_link", "ledger_account", "ledger_side",
)  # fmt: skip


def shop_of(url: str) -> App:
    """An app whose pages have those of money."""
    app = App(url, auto_start=False)
    Economy(app)
    return app


async def fill_further(url: str) -> dict[str, str]:
    """Write them; an example for each path of a page of money that names one thing."""
    app = shop_of(url)
    async with app:
        asked = TopUp(
            key="t-1", actor=Actor.operator("ops"), user="ann", amount=credits(20), source="card"
        )
        await app.economy.submit(asked)
        (link,) = await app.store().ledger_links("ann:spendable", limit=1)
    with psycopg.connect(url, autocommit=True) as connection:
        _fill(connection)
    return {"account.account": "ann:spendable", "posting.posting": link.posting}


def _fill(connection: psycopg.Connection[Any]) -> None:
    """Write them past the triggers, as a copy of a database is loaded."""
    connection.execute("set session_replication_role = replica")
    for text, number in ROWS.items():
        connection.execute(text, (number,))
    for name in _TABLES:
        connection.execute(f"vacuum analyze offpath.{name}".encode())
