"""The sweep that fires schedules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from offpath.jobs.schedules.ticker import Ticker
from offpath.model.tally import Tally
from offpath.sweeps.context import SweepContext


class FireDue:
    """Fires the schedules that are due; what code defines is put first."""

    def __init__(self, ticker: Callable[[], Ticker]) -> None:
        self._ticker = ticker

    async def run(self, _ctx: SweepContext, _now: datetime, limit: int) -> Tally:
        """Fire up to ``limit`` schedules; what is due is judged by the store's clock."""
        return await self._ticker().sweep(limit)
