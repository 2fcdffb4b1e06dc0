"""The sweep that removes what was kept long enough."""

from __future__ import annotations

from collections.abc import Callable

from offpath.model.tally import Tally
from offpath.store.log_trim import trim, trim_actions
from offpath.store.protocol import Store
from offpath.sweeps.own import OwnSweep


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
        counted = {
            "jobs": removed.jobs,
            "messages": removed.messages,
            "events": events,
            "actions": actions,
        }
        more = max(counted.values()) >= limit
        return Tally(counted={name: n for name, n in counted.items() if n}, more=more)
