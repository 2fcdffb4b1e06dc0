"""The windows that a worker compares by itself: one after the other, each once in the fleet.

Which are done is kept as claims in the store, so another worker goes on where one has stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from offpath.economy.ledger.reconciliation import Window
from offpath.economy.sweeps.context import Pass

BACK: Final = 30
"""The most windows that are made up for after a standstill."""
_TAKEN: Final = 900.0
"""Seconds for which a window is this pass's."""
_PREFIX: Final = "economy.reconcile:"


@dataclass(frozen=True, slots=True)
class DueWindow:
    """A window that this pass compares."""

    run: Pass
    window: Window
    key: str
    holder: str

    async def ended(self, *, done: bool) -> None:
        """Keep that it is done, or leave it to the next pass."""
        if done:
            kept = (BACK + 2) * (self.window.until - self.window.since).total_seconds()
            await self.run.store.claim(self.key, self.holder, ttl=kept + _TAKEN, renew=True)
        else:
            await self.run.store.release_claim(self.key, self.holder)


async def due_windows(run: Pass) -> list[DueWindow]:
    """The windows since the last one that was compared, the oldest first. Before any was compared
    it is the last alone: nobody has the files of the time before.
    """
    every = run.settings.reconcile_every
    if every is None:
        return []
    newest = int((run.now.timestamp() - run.settings.reconcile_lag) // every) - 1
    holder, mine = run.economy.new_id(), list[DueWindow]()
    for number in range(newest, newest - BACK, -1):
        key = f"{_PREFIX}{every:g}:{number}"
        if not await run.store.claim(key, holder, ttl=_TAKEN):
            return mine[::-1]
        mine.append(DueWindow(run, _window(number, every), key, holder))
    for one in mine[1:]:
        await one.ended(done=False)
    return mine[:1]


def _window(number: int, every: float) -> Window:
    begin = datetime.fromtimestamp(0, UTC) + timedelta(seconds=number * every)
    return Window(since=begin, until=begin + timedelta(seconds=every))
