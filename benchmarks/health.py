"""Health: what it costs a busy worker to be supervised, as a share of its CPU."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine

import msgspec

import offpath
from benchmarks.jobs import CONCURRENCY, opened
from benchmarks.report import Measurement
from offpath.config import Settings
from offpath.health.probe import Probe
from offpath.model.tally import Turn
from offpath.runtime.clock import SystemClock
from offpath.runtime.loop import Loop
from offpath.runtime.metrics import Metrics
from offpath.runtime.pace import Pace

JOBS = 20_000
TURNS = 20_000
CALLS = 500
_BULK = 1_000
_LOOK = 0.01
KEEP_EVERY, HEARTBEAT_EVERY, PROBE_EVERY, SCRAPE_EVERY = 1.0, 10.0, 5.0, 15.0
"""Seconds between two looks at the loops, two reports, two calls of the probe, two scrapes."""

Case = Callable[[str, str], Coroutine[None, None, Measurement]]


def settings() -> str:
    """The measurements, with their settings."""
    return (
        f"{JOBS:,} no-op jobs, concurrency {CONCURRENCY}, one started worker; looked at every "
        f"{KEEP_EVERY:g} s, reported every {HEARTBEAT_EVERY:g} s, probed every {PROBE_EVERY:g} s, "
        f"scraped every {SCRAPE_EVERY:g} s"
    )


def raw_rates(backend: str, url: str) -> dict[str, float]:
    """There is nothing bare to compare with: the share of the worker's own CPU is told."""
    del backend, url
    return {}


async def supervision(backend: str, url: str) -> Measurement:
    """A busy worker's turns and seconds, times what a turn and a second of supervision cost.

    The parts are measured apart, since a share below one in a hundred is lost in the noise of
    two whole runs.
    """
    turn = await _turn_cost()
    async with opened(url) as (app, noop):
        for first in range(0, JOBS, _BULK):
            await app.enqueue([noop.job(n) for n in range(first, first + _BULK)])
        start, cpu = time.perf_counter(), time.process_time()
        async with app.worker(concurrency=CONCURRENCY) as worker:
            while worker.counts.total < JOBS:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(_LOOK)
            seconds, spent = time.perf_counter() - start, time.process_time() - cpu
            turns = sum(loop.iterations for loop in worker.loops())
            second = _second_cost(app, worker)
    cost = turns * turn + seconds * second
    return Measurement(
        bench="health",
        backend=backend,
        case="supervision",
        per_s=JOBS / seconds,
        ratio=cost / spent,
        cpu_us_per_job=cost / JOBS * 1e6,
        note=(
            f"{100 * cost / spent:.2f} % of the worker's CPU: {turns} turns of "
            f"{turn * 1e6:.1f} µs, {seconds:.1f} s of {second * 1e6:.0f} µs"
        ),
    )


async def _turn_cost() -> float:
    """CPU seconds that a supervised turn takes more than the bare call of what it does."""
    made = Turn(again=True)
    left = 0
    ended = asyncio.Event()

    async def step() -> Turn:
        nonlocal left
        left -= 1
        if left <= 0:
            ended.set()
        return made

    registry = Metrics()
    took = registry.summary("offpath_loop_iteration_seconds", loop="bench")
    counted = registry.counter("offpath_loop_iterations_total", loop="bench", outcome="clean")

    def seen(_verdict: object, seconds: float) -> None:
        counted.add()
        took.observe(seconds)

    loop = Loop(
        "bench",
        step,
        clock=SystemClock(),
        pace=Pace(interval=1.0, longest_backoff=1.0),
        report=lambda *_: None,
        seen=seen,
    )
    left = TURNS
    cpu = time.process_time()
    loop.start()
    await ended.wait()
    supervised = time.process_time() - cpu
    await loop.stop()
    left = TURNS
    cpu = time.process_time()
    for _ in range(TURNS):
        await step()
        await asyncio.sleep(0)
    return max(supervised - (time.process_time() - cpu), 0.0) / TURNS


def _second_cost(app: offpath.App, worker: offpath.Worker) -> float:
    """CPU seconds of all that is done by the clock, in one second."""
    telemetry = worker._engine.telemetry  # noqa: SLF001 - what the worker itself calls
    probe = Probe(worker.report, Settings(), app.clock, app.metrics)
    parts = {
        KEEP_EVERY: lambda: telemetry.loops(worker.loops()),
        HEARTBEAT_EVERY: lambda: msgspec.json.encode(worker.report()),
        PROBE_EVERY: lambda: probe.answer("/readyz", None),
        SCRAPE_EVERY: lambda: probe.answer("/metrics", None),
    }
    return sum(_each(call) / every for every, call in parts.items())


def _each(call: Callable[[], object]) -> float:
    cpu = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - cpu) / CALLS


CASES: dict[str, Case] = {"supervision": supervision}
