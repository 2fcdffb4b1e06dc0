"""The store's part for the ledger; each write is one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.model.ledger.records import Totals
from offpath.store.hints import Hint
from offpath.store.ledger import LedgerReads
from offpath.store.postgres import ledger_pruning
from offpath.store.postgres.ledger_post import KnownAccounts, post_steps
from offpath.store.postgres.ledger_reading import LedgerReading
from offpath.store.postgres.part import Part
from offpath.store.postgres.session import Snapshot
from offpath.store.programs.dialect import Rows, one
from offpath.store.sql import Catalogue, Query


class LedgerMoment(LedgerReading):
    """The ledger at one moment, whatever is posted meanwhile."""

    def __init__(self, snapshot: Snapshot, sql: Catalogue) -> None:
        self._snapshot = snapshot
        self._sql = sql

    async def _ask_ledger(self, query: Query) -> Rows:
        return await self._snapshot.ask(query)


class LedgerTables(Part, LedgerReading):
    """Accounts, postings, side rows and checkpoints on Postgres."""

    _accounts: KnownAccounts

    async def post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        """Decide operations and commit what they did."""
        if not operations:
            return []
        now = self._now()
        posted = await self._database.call(
            lambda: post_steps(operations, now, self._accounts, sql=self._sql)
        )
        if posted.told:
            self._tell(Hint.MESSAGES)
        return posted.decided

    async def prune_ledger(
        self, *, attempts_before: int, keys_before: int | None, limit: int
    ) -> int:
        """Remove old attempts and old keys."""
        return await self._database.write(
            lambda: ledger_pruning.prune_ledger_steps(
                attempts_before, keys_before, limit, sql=self._sql
            )
        )

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[LedgerReads]:
        """The ledger as it is now, on a connection that is held until the end."""
        async with self._database.snapshot() as snapshot:
            yield LedgerMoment(snapshot, self._sql)

    async def ledger_totals(self) -> Totals:
        """Sums over all accounts, planned freely: in one pass over the table."""
        query = self._sql["ledger_totals"]()
        rows = await self._database.write(lambda: one(query), "limit")
        return msgspec.json.decode(rows[0][0], type=Totals)

    async def _ask_ledger(self, query: Query) -> Rows:
        return await self._database.call(lambda: one(query))
