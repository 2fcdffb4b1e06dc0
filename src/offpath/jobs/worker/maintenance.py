"""The duties of every worker for the fleet: rescue, tidying up, counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.model.tally import Turn, Verdict
from offpath.store.log_trim import trim

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.worker.telemetry import WorkerTelemetry
    from offpath.jobs.worker.terms import Found, Measure
    from offpath.jobs.worker.unclaimed import Unclaimed
    from offpath.model.health import AgeGauge
    from offpath.runtime.recent_ends import RecentEnds
    from offpath.store.protocol import Store

# Rescued rows stay locked until the commit; more of them are taken by the next pass at once.
RESCUE_BATCH = 500
# Small enough to hold up no settlement, and repeated at once while there is more.
PRUNE_BATCH = 1_000
MOST_COUNTED = 10_000
"""Due jobs of one lane, and held ones, that are counted: more are told as this many."""


class Maintenance:
    """Bounded passes: each does one batch and says whether there may be more."""

    def __init__(
        self,
        store: Store,
        *,
        max_deliveries: int,
        keep_dead: float | None,
        keep_log: float | None = None,
        unsure: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._max_deliveries = max_deliveries
        self._keep_dead = keep_dead
        self._keep_log = keep_log
        self._unsure = unsure

    async def rescue(self) -> Turn | bool:
        """Give jobs of dead workers to the living; returns whether there may be more at once."""
        if self._unsure():  # the living could not renew their leases either, or not yet
            return NOTHING
        # Deaths that can be seen are noted before leases are judged: a seen death need not wait for
        # the end of its lease.
        if self._store.capabilities.presence:
            await self._store.notice_deaths()
        rescued = await self._store.rescue(
            limit=RESCUE_BATCH,
            max_deliveries=self._max_deliveries,
            keep=self._keep_dead,
        )
        return len(rescued) >= RESCUE_BATCH if rescued else NOTHING

    async def prune(self) -> Turn | bool:
        """Remove ended jobs, messages and events of the log kept long enough; returns whether there
        may be more.
        """
        removed = await self._store.prune(limit=PRUNE_BATCH)
        events = await trim(self._store, self._keep_log, PRUNE_BATCH)
        most = max(removed.jobs, removed.messages, events)
        return most >= PRUNE_BATCH if most else NOTHING


class WaitingCounts:
    """The work that waits, as last counted: for the metrics, and for the worker's health."""

    def __init__(
        self,
        store: Store,
        measure: Measure | None,
        ends: RecentEnds,
        found: Found | None = None,
        unclaimed: Unclaimed | None = None,
    ) -> None:
        self._store = store
        self._measure = measure
        self._found = found
        self._unclaimed = unclaimed
        self.findings: tuple[str, ...] = ()
        """Findings that stand and that nobody has accepted, one line each."""
        self.ends = ends
        """The recent ends in this process."""
        self.gauges: tuple[AgeGauge, ...] = ()
        """The age of the oldest of each kind that waits, and its limit."""

    async def count(self, telemetry: WorkerTelemetry) -> Turn | None:
        """Count what is due. All ages are by the store's clock, which nobody's skew can spoil."""
        self.ends.look()
        now = await self._store.ping()
        backlog = await self._store.backlog(limit=MOST_COUNTED)
        telemetry.due(backlog, now)
        if self._unclaimed is not None:
            await self._unclaimed.look(backlog)
        telemetry.held(await self._store.count_held(limit=MOST_COUNTED))
        if self._measure is not None:
            self.gauges = tuple(await self._measure(backlog, now))
            telemetry.waiting(self.gauges)
        if self._found is not None:
            found = [one for one in await self._found(now) if one.hinders]
            self.findings = tuple(one.line for one in found)
            telemetry.found(one.kind for one in found)
        return None if backlog else NOTHING


NOTHING = Turn(verdict=Verdict.EMPTY)
