"""The memory of a process: a worker that works on and on, running jobs, waiting handles."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import offpath
from benchmarks.jobs import CONCURRENCY, opened
from benchmarks.report import Measurement
from offpath.economy.ledger.reconciliation import Pulled, ReconcileRecord, RecordKind, Window
from offpath.economy.ledger.sides import reconcile as compared
from offpath.model.ledger.money import Currency, Money

FLAT = 5_000_000
"""Jobs of the case ``flat``."""
RUNNING = 1_000
HANDLES = 100_000
RECORDS = 1_000_000
"""Records of each side of the case ``reconcile``."""
WINDOW = Window(
    since=datetime(2026, 1, 1, tzinfo=UTC), until=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(1)
)
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
    return _told(
        "flat", backend, f"{late:.0f} MiB after {done:,} jobs, {early:.0f} after a tenth", late
    )


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
    return _told("running", backend, f"{there:.0f} MiB with {RUNNING:,} running jobs", there)


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
        there,
    )


async def reconcile(backend: str, _url: str) -> Measurement:
    """A processor's records and as many of ours, compared; one in 997 is on one side alone."""
    before, begun = resident(), time.perf_counter()
    report = compared(WINDOW, Pulled(processor=_records(0), ledger=_records(1)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    note = f"{peak:.0f} MiB at most with {RECORDS:,} records a side, {before:.0f} before"
    told = _told("reconcile", backend, f"{note}; {report.differing:,} differ", peak)
    told.per_s = RECORDS / (time.perf_counter() - begun)
    return told


def _records(side: int) -> Iterator[ReconcileRecord]:
    for n in range(RECORDS):
        if n % 997 or side:
            key, amount = f"ch_{n * 7_919 % RECORDS:09}", Money(Currency.USD, n % 10_007)
            yield ReconcileRecord(
                kind=RecordKind.BUY, key=key, amount=amount, ref=f"r-{n}", at=WINDOW.since
            )


def _told(case: str, backend: str, note: str, there: float) -> Measurement:
    """``there``: MiB."""
    megabytes = there * _MIB / 1e6
    return Measurement(bench="memory", backend=backend, case=case, note=note, megabytes=megabytes)


CASES: dict[str, Case] = {each.__name__: each for each in (flat, running, handles, reconcile)}
