"""The sweep that removes what was kept long enough."""

from __future__ import annotations

from collections.abc import Callable

from offpath.jobs.worker.upkeep import PRUNE_BATCH
from offpath.model.tally import Tally
from offpath.store.log_trim import trim, trim_actions
from offpath.store.protocol import Store
from offpath.sweeps.own import OwnSweep

KINDS = ("jobs", "messages", "events", "actions")
"""The kinds of rows that are removed."""


class Prune(OwnSweep):
    """Removes what was kept long enough: ended jobs and messages, actions of operators, and events
    of the log that every router has passed; counted, since they are gone.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        *,
        keep_log: float | None,
        keep_actions: float | None = None,
    ) -> None:
        self._store = store
        self._keep_log = keep_log
        self._keep_actions = keep_actions

    async def move(self, limit: int) -> Tally:
        """Remove up to ``limit`` of each."""
        removed = await self._store().prune(limit=limit)
        events = await trim(self._store(), self._keep_log, limit)
        actions = await trim_actions(self._store(), self._keep_actions, limit)
        numbers = (removed.jobs, removed.messages, events, actions)
        counted = dict(zip(KINDS, numbers, strict=True))
        more = max(counted.values()) >= limit
        return Tally(counted={name: n for name, n in counted.items() if n}, more=more)

    async def all(self, limit: int = PRUNE_BATCH) -> dict[str, int]:
        """Remove pass by pass until nothing is left; the number of each kind."""
        removed = dict.fromkeys(KINDS, 0)
        more = True
        while more:
            tally = await self.move(limit)
            more = tally.more
            for kind, number in tally.counted.items():
                removed[kind] += number
        return removed
