"""The instrumented store's ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from offpath.store.watching import Watching

if TYPE_CHECKING:
    from offpath.model.ledger.deciding import Decided, LedgerOp
    from offpath.model.ledger.posting import LinkRecord, PostingRecord
    from offpath.model.ledger.records import (
        AccountRecord,
        Checkpoint,
        KeyRecord,
        Leaf,
        SideRow,
        Totals,
    )
    from offpath.store.ledger import Counts, LedgerReads


class InstrumentedLedger(Watching):
    """The part of the instrumented store that is a ledger store."""

    async def post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        """As the store does."""
        decided = await self._timed("post", self._inner.post(operations))
        self._metering.decided(decided)
        return decided

    async def lease_sides(
        self, kind: str, *, limit: int, hold: float, now: int | None = None
    ) -> list[SideRow]:
        """As the store does."""
        call = self._inner.lease_sides(kind, limit=limit, hold=hold, now=now)
        return await self._timed("lease_sides", call)

    async def save_checkpoint(
        self, checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool = False
    ) -> bool:
        """As the store does."""
        call = self._inner.save_checkpoint(checkpoint, leaves, anew=anew)
        return await self._timed("save_checkpoint", call)

    async def prune_ledger(
        self, *, attempts_before: int, keys_before: int | None, limit: int
    ) -> int:
        """As the store does."""
        call = self._inner.prune_ledger(
            attempts_before=attempts_before, keys_before=keys_before, limit=limit
        )
        return await self._timed("prune_ledger", call)

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[LedgerReads]:
        """As the store does. Timed until it stands; the reads within are the store's own."""
        async with AsyncExitStack() as stack:
            entered = stack.enter_async_context(self._inner.ledger_snapshot())
            yield await self._timed("ledger_snapshot", entered)

    # -- reading ---------------------------------------------------------------------------

    async def ledger_accounts(
        self, *, ids: Sequence[str] = (), prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[AccountRecord]:
        """As the store does."""
        call = self._inner.ledger_accounts(ids=ids, prefix=prefix, after=after, limit=limit)
        return await self._timed("ledger_accounts", call)

    async def ledger_debts(self, *, after: str = "", limit: int = 1000) -> list[AccountRecord]:
        """As the store does."""
        return await self._timed("ledger_debts", self._inner.ledger_debts(after=after, limit=limit))

    async def ledger_links(
        self, account: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> list[LinkRecord]:
        """As the store does."""
        call = self._inner.ledger_links(account, after=after, limit=limit, newest=newest)
        return await self._timed("ledger_links", call)

    async def ledger_walk(
        self, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """As the store does."""
        call = self._inner.ledger_walk(after=after, limit=limit)
        return await self._timed("ledger_walk", call)

    async def ledger_since(
        self, account: str, number: int, *, limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """As the store does."""
        call = self._inner.ledger_since(account, number, limit=limit)
        return await self._timed("ledger_since", call)

    async def ledger_tails(
        self, tails: Sequence[tuple[str, int, int]]
    ) -> list[tuple[LinkRecord, str]]:
        """As the store does."""
        return await self._timed("ledger_tails", self._inner.ledger_tails(tails))

    async def ledger_postings(
        self, *, ids: Sequence[str] = (), after: int = 0, limit: int = 1000
    ) -> list[PostingRecord]:
        """As the store does."""
        call = self._inner.ledger_postings(ids=ids, after=after, limit=limit)
        return await self._timed("ledger_postings", call)

    async def ledger_sides(
        self,
        kind: str,
        *,
        ids: Sequence[str] = (),
        owner: str | None = None,
        states: Sequence[str] = (),
        after: str = "",
        limit: int = 1000,
    ) -> list[SideRow]:
        """As the store does."""
        call = self._inner.ledger_sides(
            kind, ids=ids, owner=owner, states=states, after=after, limit=limit
        )
        return await self._timed("ledger_sides", call)

    async def ledger_bare(self, *, limit: int = 1000) -> list[str]:
        """As the store does."""
        return await self._timed("ledger_bare", self._inner.ledger_bare(limit=limit))

    async def ledger_key(self, key: str) -> KeyRecord | None:
        """As the store does."""
        return await self._timed("ledger_key", self._inner.ledger_key(key))

    async def ledger_totals(self) -> Totals:
        """As the store does."""
        return await self._timed("ledger_totals", self._inner.ledger_totals())

    async def ledger_last(self) -> int:
        """As the store does."""
        return await self._timed("ledger_last", self._inner.ledger_last())

    async def ledger_sums(self) -> dict[str, int]:
        """As the store does."""
        return await self._timed("ledger_sums", self._inner.ledger_sums())

    async def ledger_counts(self) -> Counts:
        """As the store does."""
        return await self._timed("ledger_counts", self._inner.ledger_counts())

    async def ledger_checkpoints(self, *, before: str = "", limit: int = 10) -> list[Checkpoint]:
        """As the store does."""
        call = self._inner.ledger_checkpoints(before=before, limit=limit)
        return await self._timed("ledger_checkpoints", call)

    async def ledger_leaves(
        self, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> list[Leaf]:
        """As the store does."""
        call = self._inner.ledger_leaves(ids=ids, after=after, limit=limit)
        return await self._timed("ledger_leaves", call)

    async def ledger_moved(self, *, after: str = "", limit: int = 1000) -> list[str]:
        """As the store does."""
        call = self._inner.ledger_moved(after=after, limit=limit)
        return await self._timed("ledger_moved", call)
