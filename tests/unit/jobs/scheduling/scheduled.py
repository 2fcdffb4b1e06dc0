"""An app with schedules under a clock that is moved by hand."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from offpath import App, Context
from offpath.jobs.schedules.schedules import Schedules
from offpath.jobs.schedules.ticker import Ticker
from offpath.model.schedule import Occurrence
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore

START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = 3600.0
DAY = 24 * HOUR


class Rig:
    """An app, its schedules, and as many workers' tickers as a test wants."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.store = MemoryStore(self.clock)
        self.app = App(store=self.store, auto_start=False, clock=self.clock)
        self.errors: list[tuple[BaseException, str]] = []
        self.ran: list[tuple[str, datetime | None]] = []
        self.schedules = Schedules(self.opened, self.app.new_id)

        @self.app.task
        async def report(ctx: Context, of: str = "all") -> None:
            self.ran.append((of, ctx.scheduled_for))

        self.report = report
        self.ticker = self.another()

    async def opened(self) -> MemoryStore:
        return self.store

    def another(self, schedules: Schedules | None = None) -> Ticker:
        return (schedules or self.schedules).ticker(
            self.clock, lambda error, phase: self.errors.append((error, phase))
        )

    async def tick(self) -> Any:
        """Turns until one has nothing more to do at once; the last one."""
        while True:
            turn = await self.ticker.step()
            if turn.again is not True:
                return turn

    async def run(self) -> None:
        """Run the jobs that are due."""
        await self.app.worker().run_until_idle()

    async def live(self, seconds: float, step: float) -> None:
        """A worker lives so long: it ticks and runs jobs at each step."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            await self.tick()
            await self.run()

    async def rows(self) -> list[Occurrence]:
        """The fate of all occurrences so far."""
        names = [one.schedule.name for one in await self.schedules.list()]
        return [row for name in names for row in await self.store.occurrences(name)]

    async def outcomes(self, name: str) -> Counter[str]:
        found = await self.schedules.history(name, limit=10_000)
        return Counter(one.outcome.value for one in found)
