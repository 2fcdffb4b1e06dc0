"""The memory of a process: a worker that works on and on, running jobs, waiting handles."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path

import offpath
from benchmarks.jobs import CONCURRENCY, opened
from benchmarks.report import Measurement

FLAT = 5_000_000
"""Jobs of the case ``flat``."""
RUNNING = 1_000
HANDLES = 100_000
_BULK = 1_000
_ROUND = 20_000
_MIB = 2**20

Case = Callable[[str, str], Coroutine[None, None, Measurement]]


def raw_rates(_backend: str, _url: str) -> dict[str, float]:
    """None: memory has no bare rate."""
    return {}


def settings() -> str:
    """The settings that the figures depend on."""
    return f"resident memory of the whole process, {os.cpu_count()} cores"


def resident() -> float:
    """Resident memory of this process, in MiB. Linux alone."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / _MIB


async def flat(backend: str, url: str) -> Measurement:
    """One worker that works off so many jobs, whose results are not kept."""
    async with opened(url) as (app, noop):
        worker = app.worker(concurrency=CONCURRENCY)
        running = asyncio.create_task(worker.run())
        early, done, left = 0.0, 0, noop.options(retention=0)
        while done < FLAT:
            last = (await app.enqueue([left.job(n) for n in range(_BULK)]))[-1]
            if (done := done + _BULK) % _ROUND == 0:
                await last.result()
            if not early and done >= FLAT / 10:
                early = resident()
        late = resident()
        await worker.stop()
        await running
    return _told("flat", backend, f"{late:.0f} MiB after {done:,} jobs, {early:.0f} after a tenth")


async def running(backend: str, url: str) -> Measurement:
    """A thousand jobs that run at once and do nothing."""
    app = offpath.App(url, migrate=True, auto_start=False)
    over, begun = asyncio.Event(), asyncio.Semaphore(0)

    @app.task
    async def waits() -> None:
        begun.release()
        await over.wait()

    async with app:
        await app.enqueue([waits.job() for _ in range(RUNNING)])
        worker = app.worker(concurrency=RUNNING)
        task = asyncio.create_task(worker.run())
        for _ in range(RUNNING):
            await begun.acquire()
        there = resident()
        over.set()
        await worker.stop()
        await task
    return _told("running", backend, f"{there:.0f} MiB with {RUNNING:,} running jobs")


async def handles(backend: str, url: str) -> Measurement:
    """Tasks that each wait for a job of their own."""
    async with opened(url) as (app, noop):
        before, waiting = resident(), []
        for first in range(0, HANDLES, _BULK):
            size = min(_BULK, HANDLES - first)
            enqueued = await app.enqueue([noop.job(n) for n in range(size)])
            waiting += [asyncio.create_task(handle.result()) for handle in enqueued]
        await asyncio.sleep(0)
        there = resident()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return _told(
        "handles",
        backend,
        f"{there:.0f} MiB with {HANDLES:,} waiting handles, {before:.0f} without",
    )


def _told(case: str, backend: str, note: str) -> Measurement:
    return Measurement(bench="memory", backend=backend, case=case, note=note)


CASES: dict[str, Case] = {each.__name__: each for each in (flat, running, handles)}
