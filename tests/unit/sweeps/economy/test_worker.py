"""The worker of an economy: its timer, its pauses, and how it ends. §16.8-§16.10, §17.10."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest

from offpath.economy import SWEEP_NAMES, EconomyResult, EconomyRun, SweepInput
from offpath.economy.worker import EconomyWorker
from offpath.errors import InvalidArgument
from offpath.model.tally import Tally
from offpath.testing import ManualClock
from tests.unit.jobs.worker.rig import breathe, until

Tick = Callable[[], Awaitable[None]]


class Runs:
    """Stands for the sweeps: notes each run, and may wait, be full, or raise."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.at: list[datetime] = []
        self.asked: list[SweepInput] = []
        self.full: list[tuple[str, ...]] = []
        self.gate: asyncio.Event | None = None
        self.error: Exception | None = None
        self.going = 0
        self.most = 0
        self.ended = 0

    async def __call__(self, asked: SweepInput) -> EconomyRun:
        self.asked.append(asked)
        self.at.append(self.clock.now())
        self.going += 1
        self.most = max(self.most, self.going)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.error is not None:
                raise self.error
        finally:
            self.going -= 1
        self.ended += 1
        full = self.full.pop(0) if self.full else ()
        return EconomyRun(
            batch=tuple(
                EconomyResult(name=name, tally=Tally(more=name in full)) for name in SWEEP_NAMES
            )
        )


@pytest.fixture
def runs() -> Runs:
    return Runs(ManualClock())


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def worker(runs: Runs, told: list[str]) -> EconomyWorker:
    return EconomyWorker(runs, runs.clock, lambda error, _: told.append(type(error).__name__))


class Timer:
    """A scheduler of the host's."""

    def __init__(self) -> None:
        self.every: float | None = None
        self.tick: Tick | None = None
        self.cancelled = 0

    def __call__(self, tick: Tick, every: float) -> Callable[[], None]:
        self.tick, self.every = tick, every
        return self._cancel

    def _cancel(self) -> None:
        self.cancelled += 1

    async def fire(self) -> None:
        assert self.tick is not None
        await self.tick()


async def test_a_scheduler_gets_the_interval_and_stop_cancels_it(
    runs: Runs, worker: EconomyWorker
) -> None:
    """§16.8."""
    timer = Timer()
    worker.start(5, scheduler=timer)
    assert (timer.every, worker.started) == (5, True)
    await timer.fire()
    await worker.stop()
    await timer.fire()
    await worker.stop()
    assert (timer.cancelled, len(runs.asked), worker.started) == (1, 1, False)


async def test_each_tick_reads_the_clock(runs: Runs, worker: EconomyWorker) -> None:
    """§16.9: by the injected clock, whose sleepers are the only ones."""
    began = runs.clock.now()
    worker.start(10)
    await until(lambda: runs.ended == 1)
    await until(lambda: runs.clock.sleeping == 1)
    runs.clock.advance(10)
    await until(lambda: runs.ended == 2)
    await worker.stop()
    assert [(at - began).total_seconds() for at in runs.at] == [0, 10]
    assert all(asked.now is None for asked in runs.asked)
    assert runs.clock.sleeping == 0


async def test_a_paused_worker_ticks_without_doing_anything(
    runs: Runs, worker: EconomyWorker
) -> None:
    """§16.10."""
    timer = Timer()
    worker.start(5, scheduler=timer)
    worker.pause()
    await timer.fire()
    assert (runs.asked, worker.paused) == ([], True)
    await worker.run_once()
    assert len(runs.asked) == 1
    worker.resume()
    await timer.fire()
    assert len(runs.asked) == 2
    await worker.stop()


async def test_runs_never_overlap_whoever_asks(runs: Runs, worker: EconomyWorker) -> None:
    """§17.10: in the original a slow run was overtaken by the next tick."""
    runs.gate = asyncio.Event()
    timer = Timer()
    worker.start(1, scheduler=timer)
    first = asyncio.ensure_future(timer.fire())
    await until(lambda: runs.going == 1)
    await timer.fire()  # returns at once: one is under way
    by_hand = asyncio.ensure_future(worker.run_once())
    await breathe()
    assert (runs.most, len(runs.asked)) == (1, 1)
    runs.gate.set()
    await first
    await by_hand
    assert (runs.most, len(runs.asked)) == (1, 2)
    await worker.stop()


async def test_stop_waits_for_the_run_under_way(runs: Runs, worker: EconomyWorker) -> None:
    """§17.10: the original closed its store beneath a running sweep."""
    runs.gate = asyncio.Event()
    worker.start(1)
    await until(lambda: runs.going == 1)
    stopping = asyncio.ensure_future(worker.stop())
    await breathe()
    assert not stopping.done()
    runs.gate.set()
    await stopping
    assert (runs.ended, runs.going) == (1, 0)


async def test_stop_waits_also_for_the_tick_of_a_scheduler(
    runs: Runs, worker: EconomyWorker
) -> None:
    runs.gate = asyncio.Event()
    timer = Timer()
    worker.start(1, scheduler=timer)
    tick = asyncio.ensure_future(timer.fire())
    await until(lambda: runs.going == 1)
    stopping = asyncio.ensure_future(worker.stop())
    await breathe()
    assert not stopping.done()
    runs.gate.set()
    await stopping
    assert runs.ended == 1
    await tick


async def test_a_full_page_is_followed_at_once_by_the_sweeps_that_were_full(
    runs: Runs, worker: EconomyWorker
) -> None:
    """§17.7: at most limit rows in an interval was the throughput of the original."""
    runs.full = [("payouts", "relay"), ("relay",)]
    timer = Timer()
    worker.start(60, SweepInput(limit=7), scheduler=timer)
    await timer.fire()
    assert [asked.only for asked in runs.asked] == [None, ("payouts", "relay"), ("relay",)]
    assert {asked.limit for asked in runs.asked} == {7}
    await worker.stop()


async def test_a_run_that_raises_is_told_and_the_next_comes(
    runs: Runs, worker: EconomyWorker, told: list[str]
) -> None:
    timer = Timer()
    worker.start(1, scheduler=timer)
    runs.error = RuntimeError("x")
    await timer.fire()
    runs.error = None
    await timer.fire()
    assert (told, runs.ended) == (["RuntimeError"], 1)
    await worker.stop()


async def test_it_is_started_once_and_by_the_clock(worker: EconomyWorker) -> None:
    worker.start(1, scheduler=Timer())
    with pytest.raises(InvalidArgument, match="started already"):
        worker.start(1)
    await worker.stop()
    with pytest.raises(InvalidArgument, match="more than 0"):
        worker.start(0)
    with pytest.raises(InvalidArgument, match="leave `now` out"):
        worker.start(1, SweepInput(now=ManualClock().now()))
    assert not worker.started
