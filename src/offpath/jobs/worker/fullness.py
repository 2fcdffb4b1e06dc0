"""Telling that a worker falls behind: it has been full for long, and due work waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.jobs.values.offers import BackedUp
from offpath.model.tally import Turn, Verdict
from offpath.runtime.seats import asked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from offpath.jobs.values.offers import OnBacklog
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

COUNTED = 10_000
"""Due jobs of a queue and task are counted up to this."""


class FallingBehind:
    """Watches one worker. An episode lasts from when it is full until it is not."""

    def __init__(
        self,
        hook: OnBacklog,
        store: Store,
        clock: Clock,
        *,
        after: float,
        every: float | None,
        tasks: Collection[str],
        queues: Collection[str],
        full: Callable[[], bool],
        active: Callable[[], int],
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._hook = hook
        self._store = store
        self._clock = clock
        self._after = after
        self._every = every
        self._tasks = tasks
        self._queues = queues
        self._full = full
        self._active = active
        self._report = report
        self._since: float | None = None
        self._told_at: float | None = None

    async def step(self) -> Turn:
        """Look once; tells the hook when it is time to."""
        if not self._full():
            self._since = self._told_at = None
            return _EMPTY
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since < self._after or not self._to_tell(now):
            return _EMPTY
        # Only now, since the count asks the store: a worker that is full for a moment asks nothing.
        queued = await self._queued()
        if queued == 0 or not self._full():  # it does not keep anybody waiting, or has caught up
            self._since = self._told_at = None
            return _EMPTY
        self._told_at = now
        await self._tell(BackedUp(active=self._active(), queued=queued, seconds=now - self._since))
        return Turn()

    def _to_tell(self, now: float) -> bool:
        if self._told_at is None:
            return True
        return self._every is not None and now - self._told_at >= self._every

    async def _queued(self) -> int | None:
        try:
            backlog = await self._store.backlog(limit=COUNTED)
        except Exception as error:  # noqa: BLE001 - the alarm matters more than the number
            self._report(error, "on_backlog")
            return None
        return sum(
            one.ready
            for one in backlog
            if one.task in self._tasks and (not self._queues or one.queue in self._queues)
        )

    async def _tell(self, what: BackedUp) -> None:
        try:
            await asked(self._hook, what)
        except Exception as error:  # noqa: BLE001 - reported; the worker goes on
            self._report(error, "on_backlog")


_EMPTY = Turn(verdict=Verdict.EMPTY)
