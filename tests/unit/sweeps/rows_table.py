"""A table of due rows, and a sweep over it that pushes the due time of what it looks at."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from offpath import App, Worker
from offpath.model.tally import SweepRun
from offpath.sweeps import Tally
from offpath.testing import ManualClock

BACK = 30.0
"""Seconds by which a look pushes a row's due time."""


class Row:
    def __init__(self, row_id: str, due_at: datetime) -> None:
        self.id = row_id
        self.due_at: datetime | None = due_at
        self.looks = 0


class Table:
    """Rows by due time; a row that is done has none."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.rows: dict[str, Row] = {}

    def add(self, *names: str) -> None:
        for name in names:
            self.rows[name] = Row(name, self.clock.now())

    def claim(self, now: datetime, limit: int) -> list[Row]:
        due = [row for row in self.rows.values() if row.due_at is not None and row.due_at <= now]
        claimed = sorted(due, key=lambda row: row.due_at or now)[:limit]
        for row in claimed:
            row.looks += 1
            row.due_at = now + timedelta(seconds=BACK * row.looks)
        return claimed


class Troubled:
    """Advances rows, but for those that raise, cannot be recorded, or hang."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.order: list[str] = []

    async def claim(self, ctx: Any, now: datetime, limit: int) -> list[Row]:
        return self.table.claim(now, limit)

    async def advance(self, ctx: Any, row: Row, now: datetime) -> str:
        self.order.append(row.id)
        if row.id in {"raises", "unrecordable"}:
            raise ValueError("password=hunter2")
        if row.id == "hangs":
            await asyncio.Event().wait()
        row.due_at = None
        return "moved"

    async def failed(self, ctx: Any, row: Row, error: Exception, now: datetime) -> None:
        if row.id == "unrecordable":
            raise ConnectionError("the table is gone")


class Desk:
    """An app on a clock that stands still, and what it was told of."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.told: list[tuple[str, str]] = []
        self.app = App(clock=self.clock, auto_start=False, on_error=self.note, **options)
        self.table = Table(self.clock)
        self.worker: Worker | None = None

    def note(self, error: BaseException, phase: str) -> None:
        self.told.append((type(error).__name__, phase))

    async def passing(self, step: float = 10.0, **options: Any) -> SweepRun:
        """One run of the app's sweeps; whoever waits for the clock has it moved on."""
        self.worker = self.worker or self.app.worker()
        run: asyncio.Task[SweepRun] = asyncio.create_task(self.worker.run_once(**options))
        await drive(self.clock, run, step)
        return await run

    async def tally(self, name: str, **options: Any) -> Tally:
        return (await self.passing(only=[name], **options))[name].tally


async def drive(clock: ManualClock, run: asyncio.Future[Any], step: float) -> None:
    """Move the clock by ``step`` whenever nothing else can go on, until ``run`` is done."""
    while not run.done():
        for _ in range(50):
            await asyncio.sleep(0)
        if not run.done() and clock.next_due() is not None:
            clock.advance(step)
