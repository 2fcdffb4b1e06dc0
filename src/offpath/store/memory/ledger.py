"""The part of the memory store that keeps a ledger."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice, takewhile
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from offpath.model.ledger.decision import Decided, LedgerOp, decide_all
from offpath.model.ledger.records import DUE_STATES, LASTING, Checkpoint, Leaf, SideRow
from offpath.model.ledger.trims import Trim
from offpath.store.ledger import LedgerReads
from offpath.store.memory import ledger_trims
from offpath.store.memory.ledger_book import book_for
from offpath.store.memory.ledger_reads import LedgerReading, MemoryLedgerMoment
from offpath.store.memory.ledger_rows import Ledger, Tries, View
from offpath.store.memory.mailbox import MailPlan
from offpath.store.memory.part import MemoryPart
from offpath.store.refusals import never_due
from offpath.store.rows.instants import milliseconds


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
        # The ledger may still refuse, and the messages were checked: so they are written behind it.
        self._tables.ledger.file(changes)
        mail.apply()
        self._tell()
        return decided

    async def lease_sides(
        self, kind: str, *, limit: int, hold: float, now: int | None = None
    ) -> list[SideRow]:
        """Due rows of a kind, the longest due first."""
        at = milliseconds(self._clock.now()) if now is None else now
        return lease(self._tables.ledger, kind, limit=limit, hold=hold, now=at)

    async def save_checkpoint(
        self, checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool = False
    ) -> bool:
        """Write a checkpoint and the leaves that differ from the last one's."""
        return seal(self._tables.ledger, checkpoint, leaves, anew=anew)

    async def prune_ledger(
        self, *, attempts_before: int, keys_before: int | None, limit: int
    ) -> int:
        """Remove old attempts and old keys."""
        return prune(
            self._tables.ledger,
            attempts_before=attempts_before,
            keys_before=keys_before,
            limit=limit,
        )

    async def keep_postings(self, trim: int, ids: Sequence[str]) -> None:
        """Keep these postings whole."""
        ledger_trims.keep(self._tables.ledger, trim, ids)

    async def begin_trim(self, trim: Trim, *, keeps: int) -> bool:
        """Write a trim of which nothing is done yet."""
        return ledger_trims.begin(self._tables.ledger, trim, keeps)

    async def trim_postings(self, *, limit: int) -> int:
        """Remove the next archived postings."""
        return ledger_trims.step(self._tables.ledger, limit, milliseconds(self._clock.now()))

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[LedgerReads]:
        """The ledger as it is now: copied when, and only if, it changes before the end."""
        view = View(self._tables.ledger)
        try:
            yield MemoryLedgerMoment(view)
        finally:
            view.close()


_AT: Final = attrgetter("at")


def lease(ledger: Ledger, kind: str, *, limit: int, hold: float, now: int) -> list[SideRow]:
    """Hand out due rows; each is due again after ``hold`` seconds."""
    if kind not in DUE_STATES:
        raise never_due(kind)
    due, rows = ledger.due[kind], ledger.sides[kind]
    found: list[str] = []
    while len(found) < limit and (first := due.first()) is not None and first[0][0] <= now:
        # Taken out and put back behind the loop: with a hold of 0 it would be found again at once.
        due.remove(first[1])
        found.append(first[1])
    leased = [
        replace(rows[each], due_at=now + round(hold * 1000), version=rows[each].version + 1)
        for each in found
    ]
    for row in leased:
        ledger.put_side(row)
    return leased


def seal(ledger: Ledger, checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool) -> bool:
    """Write a checkpoint unless another one was sealed since."""
    known = ledger.checkpoints
    if checkpoint.prev != (known[-1].id if known else None):
        return False
    ledger.about_to_change()
    ledger.checkpoints.append(checkpoint)
    if anew:
        ledger.leaves.clear()
    ledger.leaves.update({leaf.account: leaf for leaf in leaves})
    return True


def prune(ledger: Ledger, *, attempts_before: int, keys_before: int | None, limit: int) -> int:
    """Remove at most ``limit`` attempts and as many keys; how many there were."""
    ledger.about_to_change()
    return _prune_attempts(ledger, attempts_before, limit) + (
        0 if keys_before is None else _prune_keys(ledger, keys_before, limit)
    )


def _prune_keys(ledger: Ledger, before: int, limit: int) -> int:
    """Keys are kept in the order of their commits, those that last among them."""
    # A key that lasts is dated behind all times, and would end the walk below.
    passing = (record for record in ledger.keys.values() if record.at != LASTING)
    old = takewhile(lambda record: record.at < before, passing)
    gone = [record.key for record in islice(old, max(limit, 0))]
    for key in gone:
        del ledger.keys[key]
    return len(gone)


def _prune_attempts(ledger: Ledger, before: int, limit: int) -> int:
    stale, removed = ledger.stale, 0
    while removed < limit and (first := stale.first()) is not None and first[0] < before:
        tries = ledger.tries[first[1]]
        removed += _forget(tries, before, limit - removed)
        stale.remove(first[1])
        if len(tries.made) > 1:
            stale.push(first[1], tries.made[0].at)
    return removed


def _forget(tries: Tries, before: int, limit: int) -> int:
    """The last one stays: windows are counted from it."""
    count = min(bisect_left(tries.made, before, key=_AT), len(tries.made) - 1, limit)
    for each in tries.made[:count]:
        del tries.keys[each.key]
    del tries.made[:count]
    return count
