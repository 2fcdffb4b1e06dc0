"""The part of the SQLite store that keeps a ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.store.ledger import LedgerReads
from offpath.store.sqlite import ledger_pruning as pruning
from offpath.store.sqlite.ledger_posting import post_steps
from offpath.store.sqlite.ledger_reading import LedgerReading, LedgerSnapshot
from offpath.store.sqlite.part import Part
from offpath.store.sqlite.session import Session

T = TypeVar("T")


class Ledgering(Part, LedgerReading):
    """The part of the store that implements :class:`~offpath.store.ledger.LedgerStore`."""

    def _connect_reader(self) -> Session:
        """A connection that only reads."""
        raise NotImplementedError

    async def post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        """Decide operations in order and commit what they did."""
        if not operations:
            return []

        def decide(session: Session) -> list[Decided]:
            posted = session.drive(post_steps(operations, self._now()))
            session.stirred = session.stirred or posted.stirred
            return posted.decided

        return await self._write(decide)

    async def prune_ledger(
        self, *, attempts_before: int, keys_before: int | None, limit: int
    ) -> int:
        """Remove old attempts and keys. They are looked for where that holds up no write."""
        gone = await self._read(
            lambda session: pruning.old(session, attempts_before, keys_before, limit)
        )
        if not gone.attempts and not gone.keys:
            return 0
        return await self._write(lambda session: pruning.forget(session, gone))

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[LedgerReads]:
        """Reads of one moment, on a connection of their own."""
        snapshot = LedgerSnapshot(await self._block(self._connect_reader), self._block)
        try:
            await snapshot.begin()
            yield snapshot
        finally:
            await snapshot.close()
