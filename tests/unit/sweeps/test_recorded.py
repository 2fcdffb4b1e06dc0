"""The engine's own passes are runs that are kept, where they found something."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

import offpath
from offpath.jobs.worker.upkeep import Upkeep
from offpath.model.run import RunKind
from offpath.model.tally import Tally, Verdict
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import Metrics
from offpath.store.memory import MemoryStore
from offpath.sweeps.recorded import EVERY, recorded
from offpath.sweeps.sweeper import SweepParts
from tests.conformance.builders import START


class Passes:
    """Passes with these outcomes, one after the other."""

    def __init__(self, outcomes: Sequence[Tally | Exception]) -> None:
        self._outcomes = iter(outcomes)

    async def move(self, limit: int) -> Tally:
        """The next outcome."""
        found = next(self._outcomes)
        if isinstance(found, Exception):
            raise found
        return found


def upkeep(outcomes: Sequence[Tally | Exception], clock: ManualClock, store: MemoryStore) -> Upkeep:
    """A worker's passes, of which the rescue has these outcomes."""
    ids = (f"0190{number:04x}-0000-7000-8000-000000000000" for number in itertools.count())
    app = offpath.App(store=store, clock=clock, auto_start=False)
    parts = SweepParts(app, store, clock, Metrics(), lambda *_: None, "w1", lambda: next(ids))
    idle = Passes([Tally()] * 9)
    return recorded(Upkeep(rescue=Passes(outcomes), group_check=idle, prune=idle), parts)


def moved(count: int) -> Tally:
    """A pass that rescued so many."""
    return Tally(counted={"rescued": count})


async def test_a_pass_that_found_something_is_a_run_and_an_empty_one_is_none() -> None:
    clock = ManualClock(START)
    store = MemoryStore(clock)
    passes = upkeep([Tally(), moved(3), moved(2), moved(4)], clock, store)
    for _ in range(3):
        await passes.rescue.move(500)
    await passes.prune.move(500)
    (run,) = await store.runs()
    assert (run.kind, run.name, run.report.worker) == (RunKind.SWEEP, "rescue", "w1")
    assert (run.report.counts, run.report.verdict) == ({"rescued": 3}, Verdict.CLEAN)
    clock.advance(EVERY)
    await passes.rescue.move(500)
    newest, _ = await store.runs()
    assert (newest.report.counts, newest.report.passes) == ({"rescued": 6}, 2)


async def test_what_a_pass_raises_is_its_loops_to_tell() -> None:
    clock = ManualClock(START)
    store = MemoryStore(clock)
    passes = upkeep([ValueError("away")], clock, store)
    with pytest.raises(ValueError, match="away"):
        await passes.rescue.move(500)
    assert await store.runs() == []
