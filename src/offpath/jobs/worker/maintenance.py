"""What every worker does for the fleet now and then: rescue, tidying up, counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offpath.jobs.worker.telemetry import Telemetry
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

RESCUE_BATCH = 500
PRUNE_BATCH = 1_000
MOST_COUNTED = 10_000
"""Due jobs of one lane that are counted: more are told as this many."""


class Maintenance:
    """Bounded passes: each does one batch and says whether there may be more."""

    def __init__(self, store: Store, *, max_deliveries: int, keep_dead: float | None) -> None:
        self._store = store
        self._max_deliveries = max_deliveries
        self._keep_dead = keep_dead

    async def rescue(self) -> bool:
        """Give jobs of dead workers to the living; returns whether there may be more at once."""
        if self._store.capabilities.presence:
            await self._store.notice_deaths()
        rescued = await self._store.rescue(
            limit=RESCUE_BATCH,
            max_deliveries=self._max_deliveries,
            keep=self._keep_dead,
        )
        return len(rescued) >= RESCUE_BATCH

    async def prune(self) -> bool:
        """Remove ended jobs that were kept long enough; returns whether there may be more."""
        removed = await self._store.prune(limit=PRUNE_BATCH)
        return removed >= PRUNE_BATCH

    async def count_due(self, telemetry: Telemetry, clock: Clock) -> None:
        """Bring the metrics of due work up to date."""
        telemetry.due(await self._store.backlog(limit=MOST_COUNTED), clock.now())
