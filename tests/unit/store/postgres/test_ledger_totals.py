"""Sums over all accounts: read in one pass over their table, and under the locks where one decides
by them.
"""

from __future__ import annotations

import psycopg
import pytest

from offpath.model.effects import Effects
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.records import Receipt, Totals
from tests.conformance.ledger_builders import ANN, plain

from .conftest import Opened


class Summing:
    """An operation that decides by the totals."""

    def __init__(self) -> None:
        self.seen: list[Totals] = []

    def op(self) -> LedgerOp:
        needs = Needs(accounts=frozenset((ANN,)), totals=True)
        return LedgerOp(decide=self._decide, needs=needs)

    def _decide(self, book: Book) -> Receipt:
        self.seen.append(book.totals())
        return Receipt()


@pytest.mark.parametrize("direct", ["", "?offpath_direct=0"])
async def test_they_are_read_behind_the_locks_with_a_plan_of_their_own(
    opened: Opened, url: str, direct: str
) -> None:
    store = await opened(url + direct, pool_size=1)
    await store.post([plain(500)])
    summing, statements = Summing(), list[str]()
    store._before_statement = statements.append
    await store.post([summing.op(), plain(1), summing.op()])
    own = [name for name in statements if "ledger" in name or name in {"pin", "unpin"}]
    at = own.index("ledger_totals")
    assert own[at - 1 : at + 3] == ["unpin", "ledger_totals", "pin", "read_ledger"]
    assert statements.index("lock_accounts") < statements.index("ledger_totals")
    assert [one.balances["spendable"] for one in summing.seen] == [500, 501]
    assert (await store.ledger_totals()).balances["spendable"] == 501
    statements.clear()
    await store.post([plain(1)])
    assert "ledger_totals" not in statements


async def test_in_a_callers_transaction_no_setting_of_his_is_touched(
    opened: Opened, url: str
) -> None:
    store = await opened()
    await store.post([plain(500)])
    summing = Summing()
    async with await psycopg.AsyncConnection.connect(url) as connection:
        before = await _setting(connection)
        await store.commit_within(connection, Effects(operations=(summing.op(),)))
        assert await _setting(connection) == before
    assert [one.balances["spendable"] for one in summing.seen] == [500]


async def _setting(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> object:
    cursor = await connection.execute("select current_setting('enable_seqscan')")
    return await cursor.fetchone()
