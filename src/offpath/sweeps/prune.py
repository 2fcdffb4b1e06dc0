"""The sweep that removes what was kept long enough."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from offpath.model.tally import Tally
from offpath.store.protocol import Store
from offpath.sweeps.context import SweepContext


class Prune:
    """Removes ended jobs and messages whose time has passed; counted, since they are gone."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    async def run(self, _ctx: SweepContext, _now: datetime, limit: int) -> Tally:
        """Remove up to ``limit`` of each; what is due is judged by the store's clock."""
        removed = await self._store().prune(limit=limit)
        counted = {"jobs": removed.jobs, "messages": removed.messages}
        more = max(counted.values()) >= limit
        return Tally(counted={name: n for name, n in counted.items() if n}, more=more)
