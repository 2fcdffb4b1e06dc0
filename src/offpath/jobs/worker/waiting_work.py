"""Waiting work, counted by each worker now and then: for its metrics, and for its health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.jobs.worker.upkeep import NOTHING

if TYPE_CHECKING:
    from offpath.jobs.worker.telemetry import WorkerTelemetry
    from offpath.jobs.worker.terms import Found, Measure
    from offpath.jobs.worker.unclaimed import Unclaimed
    from offpath.model.health import AgeGauge
    from offpath.model.tally import Turn
    from offpath.runtime.recent_ends import RecentEnds
    from offpath.store.protocol import Store

MOST_COUNTED = 10_000
"""Due jobs of one lane, and held ones, that are counted: more are told as this many."""


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
