"""The part of the memory store that keeps a ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from offpath.model.ledger.decision import Decided, LedgerOp, decide_all
from offpath.model.ledger.records import Checkpoint, Leaf, SideRow
from offpath.store.ledger import LedgerReads
from offpath.store.memory import ledger_upkeep
from offpath.store.memory.instants import milliseconds
from offpath.store.memory.ledger_book import book_for
from offpath.store.memory.ledger_reads import LedgerReading, MemoryLedgerMoment
from offpath.store.memory.ledger_rows import Ledger, View
from offpath.store.memory.mailbox import MailPlan
from offpath.store.memory.part import MemoryPart


class MemoryLedger(MemoryPart, LedgerReading):
    """A :class:`~offpath.store.ledger.LedgerStore`. No method waits, so each is one step."""

    def _ledger(self) -> Ledger:
        return self._tables.ledger

    async def post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        """Decide operations and commit what they did."""
        now = self._clock.now()
        book = book_for(self._tables.ledger, now, operations)
        decided = decide_all(book, operations)
        changes = book.changes()
        mail = MailPlan(self._tables.mailbox, now)
        for message in changes.messages:
            mail.add(message)
        self._tables.ledger.file(changes)
        mail.apply()
        self._tell()
        return decided

    async def lease_sides(
        self, kind: str, *, limit: int, hold: float, now: int | None = None
    ) -> list[SideRow]:
        """Due rows of a kind, the longest due first."""
        at = milliseconds(self._clock.now()) if now is None else now
        return ledger_upkeep.lease(self._tables.ledger, kind, limit=limit, hold=hold, now=at)

    async def save_checkpoint(
        self, checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool = False
    ) -> bool:
        """Write a checkpoint and the leaves that differ from the last one's."""
        return ledger_upkeep.seal(self._tables.ledger, checkpoint, leaves, anew=anew)

    async def prune_ledger(
        self, *, attempts_before: int, keys_before: int | None, limit: int
    ) -> int:
        """Remove old attempts and old keys."""
        return ledger_upkeep.prune(
            self._tables.ledger,
            attempts_before=attempts_before,
            keys_before=keys_before,
            limit=limit,
        )

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[LedgerReads]:
        """The ledger as it is now: copied when, and only if, it changes before the end."""
        view = View(self._tables.ledger)
        try:
            yield MemoryLedgerMoment(view)
        finally:
            view.close()
