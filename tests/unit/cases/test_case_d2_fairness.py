"""D2: a flood of one tenant does not delay another one's single job."""

from __future__ import annotations

import pytest

from offpath import App
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore

SLOTS = 4


@pytest.mark.parametrize("flood", [100, 10_000])
async def test_one_job_beside_a_flood_starts_within_two_rounds_of_slots(flood: int) -> None:
    clock = ManualClock()
    app = App(store=MemoryStore(clock), clock=clock, auto_start=False)
    ran: list[str] = []

    @app.task(fair_key=lambda tenant: tenant)
    async def work(tenant: str) -> None:
        ran.append(tenant)

    async with app:
        await app.enqueue([work.job("a") for _ in range(flood)])
        await app.worker(concurrency=SLOTS, dispatch="balanced").run_until_idle(limit=SLOTS)
        await work.enqueue("b")
        worker = app.worker(concurrency=SLOTS, dispatch="balanced")
        await worker.run_until_idle(limit=2 * SLOTS)
    assert ran[:SLOTS] == ["a"] * SLOTS
    assert "b" in ran[SLOTS:]
