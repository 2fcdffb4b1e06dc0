"""A worker that finds another one dead takes what that one held at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath.jobs.worker.upkeep import NOTHING, rescue_of
from offpath.model.tally import FOUND_DEAD, Tally
from offpath.store.memory import MemoryStore
from offpath.sweeps.rescue import Rescue

if TYPE_CHECKING:
    from datetime import datetime

    from offpath.sweeps import SweepContext


class Pass:
    """A rescue that says what it is told to say."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    async def move(self, limit: int) -> Tally:
        return self.tally


@pytest.mark.parametrize(
    ("tally", "unsure", "told"),
    [
        (Tally(facts={FOUND_DEAD: ["w"]}), False, 1),
        (Tally(facts={FOUND_DEAD: ["w"]}), True, 0),
        (Tally(buckets={"queued": ("j",)}), False, 0),
        (Tally(), False, 0),
    ],
)
async def test_a_death_is_told_to_the_loops_beside_the_rescue(
    tally: Tally, unsure: bool, told: int
) -> None:
    freed = list[bool]()
    step = rescue_of(Pass(tally), lambda: unsure, freed=lambda: freed.append(True))
    turn = await step()
    assert len(freed) == told
    assert (turn == NOTHING) == (unsure or not tally.buckets)


async def test_a_sweep_that_a_dead_worker_led_is_led_by_whoever_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its next pass would be due in an hour."""
    app = offpath.App(store=MemoryStore(), auto_start=False)
    turns: asyncio.Queue[None] = asyncio.Queue()
    found = asyncio.Event()

    @app.sweep("lead", every=3600)
    class Lead:
        async def claim(self, ctx: SweepContext, now: datetime, limit: int) -> list[str]:
            turns.put_nowait(None)
            return []

        async def advance(self, ctx: SweepContext, row: str) -> None:
            """Never called."""

    async def move(self: Rescue, limit: int) -> Tally:
        return Tally(facts={FOUND_DEAD: ["w"]} if found.is_set() else {})

    monkeypatch.setattr(Rescue, "move", move)
    async with app, app.worker(), asyncio.timeout(20):
        await turns.get()
        found.set()
        await turns.get()
