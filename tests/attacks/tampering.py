"""Every column of every table of a ledger altered, one by one, and what finds it.

The page ``docs/tampering.md`` is written by ``python -m tests.attacks.tampering``; a test compares
it with a run.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

from offpath.economy import Clawback, ReversePayout, credits
from offpath.economy.ledger.archive_files import write_archive
from offpath.economy.ledger.checkpoint import seal
from offpath.economy.ledger.proof import prove
from offpath.economy.ledger.removal import trim
from offpath.economy.ledger.verification import verify_last
from offpath.economy.testing import TestSigner
from offpath.model.ledger.faults import LedgerError
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_tamper import SqlTamper
from tests.unit.economy.marketplace import OPS, RATES, START, Marketplace, committed

PAGE: Final = Path(__file__).parents[2] / "docs" / "tampering.md"
SIGNER: Final = TestSigner()
REFUSED, UNSEEN = "refused", "not found"
_ROWS: Final[dict[str, tuple[str, str]]] = {
    "account": ("account", "id = 'ann:spendable'"),
    "debt": ("account", "id = 'dan:owed'"),
    "debt's link": ("link", "account = 'dan:owed' and number = 1"),
    "posting": ("posting", "seq = 6"),
    "link": ("link", "account = 'ann:spendable' and number = 1"),
    "payout": ("side", "kind = 'payout' and state = 'RESERVED'"),
    "payout that ended": ("side", "kind = 'payout' and state = 'SETTLED'"),
    "subscription": ("side", "kind = 'subscription'"),
    "grant": ("side", "kind = 'promo' and owner = 'joy'"),
    "sale": ("side", "kind = 'sale' and id = 'o1'"),
    "entitlement": ("side", "kind = 'entitlement' and owner = 'ann' and state = 'OWNED'"),
    "key": ("key", "key = 'first'"),
    "attempt": ("attempt", "subject = 'in:ann'"),
    "checkpoint": ("checkpoint", "id = 'c2'"),
    "earlier checkpoint": ("checkpoint", "id = 'c1'"),
    "leaf": ("leaf", "account = 'ann:spendable'"),
    "trim": ("trim", "number = 1"),
    "kept posting": ("retired", "posting is not null"),
    "removed posting": ("retired", "posting is null"),
    "link that was left": ("link", "account = 'zed:spendable'"),
}
"""The row of a table that is altered, by what it is of."""
_STATES: Final = {
    "payout": "SUBMITTED",
    "payout that ended": "SUBMITTED",
    "subscription": "LAPSED",
    "grant": "REVERSED",
    "entitlement": "REVOKED",
}
_DOCUMENTS: Final = ("meta", "body", "receipt")
_DELETED: Final = "(deleted)"


async def built(store: Store, clock: ManualClock) -> None:
    """A ledger with a row of each kind, sealed twice, and some postings since."""
    clock.set(START)
    market = Marketplace(store=store, clock=clock, signer=SIGNER)
    await _trimmed(store, market)
    committed(await market.top_up("ann", "50.00", key="first"))
    await market.payout("sel", 70)
    paid, back = await market.payout("sam", 70, submitted=True), await market.payout("sid", 70)
    committed(await market.settle(paid))
    returned = ReversePayout(
        key="back", actor=OPS, user="sid", payout_id=back, reason="x", provider_reported=True
    )
    committed(await market.economy.submit(returned))
    committed(await market.spend("ann", "10.00", order_id="o1"))
    owing = Clawback(key="owing", actor=OPS, user="dan", amount=credits(3))
    committed(await market.economy.submit(owing))
    await _sealed(store, "c1")
    committed(await market.subscribe("ann", "5.00"))
    committed(await market.promo("joy", "3.00"))
    await _sealed(store, "c2")
    committed(await market.top_up("ann", "1.00"))


async def _trimmed(store: Store, market: Marketplace) -> None:
    """Postings that were archived and removed, and one that was kept whole."""
    committed(await market.promo("zoe", "3.00"))
    for _ in range(2):
        committed(await market.top_up("zed", "1.00"))
    await _sealed(store, "c0")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old.gz"
        await write_archive(store, path, SIGNER)
        await trim(store, path, SIGNER, now=lambda: 2, keep=0)


async def _sealed(store: Store, name: str) -> None:
    assert await seal(store, SIGNER, new_id=lambda: name, now=lambda: 1) is not None


class Hand(SqlTamper):
    """Alters one column of one row, with and without triggers, and puts it back."""

    def __init__(self, store: Store, backend: Backend) -> None:
        super().__init__(store, backend)
        self.place = "offpath_ledger_" if backend.name == "sqlite" else "offpath.ledger_"

    def run(self, *statements: str) -> None:
        """All of them or none: else a failure would leave the ledger without its triggers."""
        if self._backend.name == "postgres":
            super().run(*statements)
            return
        with closing(sqlite3.connect(self._backend.place, isolation_level=None)) as connection:
            asked = "select name, sql from sqlite_schema where type = 'trigger'"
            triggers = connection.execute(asked).fetchall()
            connection.execute("begin immediate")
            drops = [f"drop trigger {name}" for name, _ in triggers]
            for one in (*drops, *statements, *(script for _, script in triggers)):
                connection.execute(one)
            connection.execute("commit")

    def raw(self, statement: str) -> None:
        """With every trigger against it."""
        self._backend.execute(statement)

    def goes(self, how: Callable[[str], None], statement: str) -> bool:
        """True if the database lets a statement through."""
        try:
            how(statement)
        except Exception:
            return False
        return True

    def columns(self, table: str) -> list[tuple[str, bool]]:
        """The columns of a table, and whether each can be written."""
        if self._backend.name == "sqlite":
            asked = f"select name from pragma_table_xinfo('{self.place}{table}')"
            found = self._backend.execute(asked)
            return [(name, True) for (name,) in found]
        return [
            (name, kept == "NEVER")
            for name, kept in self._backend.execute(
                "select column_name, is_generated from information_schema.columns where "
                f"table_schema = 'offpath' and table_name = 'ledger_{table}' order by column_name"
            )
        ]

    def kind(self, table: str, column: str) -> str:
        """``int``, ``text``, ``bool`` or ``list``."""
        if self._backend.name == "sqlite":
            ((kind,),) = self._backend.execute(
                f"select type from pragma_table_xinfo('{self.place}{table}') "
                f"where name = '{column}'"
            )
        else:
            ((kind,),) = self._backend.execute(
                "select data_type from information_schema.columns where table_schema = 'offpath' "
                f"and table_name = 'ledger_{table}' and column_name = '{column}'"
            )
        return {"bool": "bool", "arra": "list", "text": "text", "json": "text"}.get(
            str(kind).lower()[:4], "int"
        )

    def change(self, what: str, column: str) -> str:
        """The statement that alters a column of a row, or deletes the row."""
        table, where = _ROWS[what]
        if column == _DELETED:
            return f"delete from {self.place}{table} where {where}"
        value = self._value(what, table, column)
        changes = f"{self._versioned(table, column)}{column} = {value}"
        return f"update {self.place}{table} set {changes} where {where}"

    def _versioned(self, table: str, column: str) -> str:
        """Each write raises the version of a row beside the postings: so does who alters it."""
        return "version = version + 1, " if table == "side" and column != "version" else ""

    def _value(self, what: str, table: str, column: str) -> str:
        kind = self.kind(table, column)
        if column == "state":
            return f"'{_STATES.get(what, 'SOLD')}'"
        if column in _DOCUMENTS or (table, column) == ("retired", "posting"):
            return '\'{"kind":"gift"}\''
        if column == "entries":
            return "array[7]::bigint[]" if kind == "list" else "'[7]'"
        if kind == "bool" or column == "guarded":
            return f"not {column}"
        if kind == "int":
            return f"coalesce({column}, 0) + 1"
        was = f"coalesce({column}, 'zz')"
        # a hash may begin so already
        return f"case when {was} like 'ab%' then 'cd' else 'ab' end || substr({was}, 3)"


async def found_by(store: Store) -> str:
    """The cheapest verification and the cheapest proof that find something wrong."""
    verifying = {"verify": False, "verify --full": True}
    proving = {"prove --light": False, "prove": True}
    found = [await _first(_mismatch, store, verifying), await _first(_fails, store, proving)]
    return ", ".join(one for one in found if one is not None) or UNSEEN


async def _first(
    check: Callable[[Store, bool], Awaitable[bool]], store: Store, ways: dict[str, bool]
) -> str | None:
    """The first of these ways that finds something, or a row that cannot be read any more."""
    for name, full in ways.items():
        try:
            if await check(store, full):
                return name
        except LedgerError:
            return name
    return None


async def _mismatch(store: Store, full: bool) -> bool:
    return (await verify_last(store, SIGNER, full=full)).mismatch


async def _fails(store: Store, full: bool) -> bool:
    return not (await prove(store, RATES, full=full)).holds


async def tampered(store: Store, backend: Backend) -> dict[str, tuple[str, str]]:
    """The fate of each alteration: by one who may write, and by one who owns the database."""
    hand = Hand(store, backend)
    every = {
        f"{what}: {column}": (what, column, writable)
        for what, (table, _) in _ROWS.items()
        for column, writable in [*hand.columns(table), (_DELETED, True)]
    }
    return {
        name: await _one(store, hand, what, column) if writable else (REFUSED, REFUSED)
        for name, (what, column, writable) in sorted(every.items())
    }


async def _one(store: Store, hand: Hand, what: str, column: str) -> tuple[str, str]:
    table = _ROWS[what][0]
    full = f"{hand.place}{table}"
    names = ", ".join(one for one, mine in hand.columns(table) if mine)
    hand.run(f"create table kept_rows as select {names} from {full}")
    statement = hand.change(what, column)
    try:
        if hand.goes(hand.raw, statement):
            seen = await found_by(store)
            return seen, seen
        if not hand.goes(hand.run, statement):
            return REFUSED, REFUSED
        return REFUSED, await found_by(store)
    finally:
        hand.run(
            f"delete from {full}",
            f"insert into {full} ({names}) select {names} from kept_rows",
            "drop table kept_rows",
        )


def page(found: dict[str, dict[str, tuple[str, str]]]) -> str:
    """The page of these results, by backend."""
    names = sorted(set().union(*found.values()))
    lines = [
        _INTRODUCTION,
        "| row: column | SQLite, raw | SQLite, owner | Postgres, raw | Postgres, owner |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        cells = [
            cell
            for backend in ("sqlite", "postgres")
            for cell in found[backend].get(name, ("", ""))
        ]
        lines.append(f"| {name} | {' | '.join(cell or '–' for cell in cells)} |")
    return "\n".join([*lines, ""])


_INTRODUCTION: Final = """# Tampering, column by column

This page is written by a run: `python -m tests.attacks.tampering`, on a ledger with a row of each
kind that was sealed twice. One column of one row is altered, and then every check is made. A test
compares the page with such a run.

*Raw* is who may write and has every trigger against them, *owner* is who puts the triggers aside.
`refused` is refused by the database itself. Else the cell says which checks find it: `verify` is
the sweep and `offpath ledger verify`, `verify --full` reads all, `prove --light` reads the accounts
and what payouts cost, `prove` replays every chain and compares every row beside the postings. `not
found` is found by none of them: what hangs on such a column is told in
[the ledger and its proof](guides/ledger-proof.md#what-cannot-be-found). – has no such column.
"""


@asynccontextmanager
async def _stores() -> AsyncIterator[list[tuple[Store, Backend]]]:
    from tests.servers import Databases

    with tempfile.TemporaryDirectory() as folder:
        clock = ManualClock(START)
        databases = Databases(os.environ["OFFPATH_TEST_POSTGRES"])
        url = databases.create()
        backends = [Backend("sqlite", f"{folder}/ledger.db"), Backend("postgres", url)]
        stores = [(one.store(clock), one) for one in backends]
        for store, _ in stores:
            await store.migrate()
            await store.open()
            await built(store, clock)
        try:
            yield stores
        finally:
            for store, _ in stores:
                await store.close()
            databases.drop(url)


async def _write() -> None:
    async with _stores() as stores:
        found = {backend.name: await tampered(store, backend) for store, backend in stores}
    PAGE.write_text(page(found), "utf-8")


if __name__ == "__main__":
    asyncio.run(_write())
    sys.stdout.write(f"{PAGE}\n")
