"""The cursors that the runs of one router take, and give back whatever becomes of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from offpath.errors import StoreError
from offpath.model.route import Cursor

if TYPE_CHECKING:
    from offpath.store.protocol import Store


class Holding:
    """Takes a cursor for a run, by a name of its own. Belongs to one event loop.

    Where the store was away as a cursor was taken or given back, it may be held in the name of a
    run that is over: it is given back before the next run, so that nobody waits for its lease.
    """

    __slots__ = ("_new_id", "_router", "_seconds", "_unreleased")

    def __init__(self, router: str, new_id: Callable[[], str], seconds: float) -> None:
        self._router = router
        self._new_id = new_id
        self._seconds = seconds
        self._unreleased: dict[int, Cursor] = {}

    async def lease(self, store: Store, partition: int) -> Cursor | None:
        """Take a partition's cursor; None while somebody else has it."""
        if (left := self._unreleased.get(partition)) is not None:
            await store.release_cursor(left)
            self._unreleased.pop(partition, None)
        holder = self._new_id()
        unseen = Cursor(router=self._router, partition=partition, position=0, holder=holder)
        try:
            return await store.lease_cursor(
                self._router, partition, holder, lease_seconds=self._seconds
            )
        except asyncio.CancelledError:  # only the answer may be missing, and we may not come again
            with suppress(StoreError):  # it stays noted, and the cancellation is what counts
                await self.release(store, unseen)
            raise
        except Exception:
            self._unreleased[partition] = unseen
            raise

    async def release(self, store: Store, cursor: Cursor) -> None:
        """Give it back."""
        try:
            await store.release_cursor(cursor)
        except BaseException:
            self._unreleased[cursor.partition] = cursor
            raise
