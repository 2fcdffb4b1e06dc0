"""The engine's own sweeps in their two forms: driven by a worker's loop, or run as a sweep."""

from __future__ import annotations

from datetime import datetime

from offpath.model.tally import Tally
from offpath.sweeps.context import SweepContext


class OwnSweep:
    """A bounded, set-based pass. What is due is judged by the store's clock, never by the caller's.

    A started worker calls ``move`` by a loop of its own, which bounds and judges its turns;
    ``run_once`` and the command line call ``run``.
    """

    async def move(self, limit: int) -> Tally:
        """Move up to ``limit`` rows."""
        raise NotImplementedError

    async def run(self, _ctx: SweepContext, _now: datetime, limit: int) -> Tally:
        """Move up to ``limit`` rows, as a sweep does."""
        return await self.move(limit)
