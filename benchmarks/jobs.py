"""Jobs: enqueue, process, latency and idle cost of one worker, with results kept."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import offpath
from benchmarks import raw
from benchmarks.report import Measurement, percentile
from benchmarks.sender import send
from benchmarks.server import server_cpu

JOBS = 20_000
CONCURRENCY = 100
_SINGLES = 1_000
_COLD = 50
"""Enqueues before those, by which connections and statements are ready."""
_CALLERS = 100
_CONCURRENT = 10_000
_PROBES = 100
_WARM_UP = 5
_STEADY = {1: 20, 50: 300, 500: 2_000}
"""Probes at each rate a second."""
_GAP = 0.05
"""Seconds between probes: an idle worker has had its peace, and no notice waits for the last."""
_SETTLING = 2.0
_IDLE_SECONDS = 20.0
_FLEET = 200
"""Idle workers at once."""
_BULK = 1_000
_ROUNDS = 100
"""Backlogs that are worked off in one table."""
_HELD_ROUNDS = 30
"""The same while a snapshot is held: as many dead rows as ten minutes at 1,000 a second leave."""
_ENDS = 3
"""Backlogs at either end of those, of which the median counts."""
_LANES = 20_000
"""Tasks of others, each with a ready job."""

Case = Callable[[str, str], Coroutine[None, None, Measurement]]


def raw_rates(backend: str, url: str) -> dict[str, float]:
    """The bare database's rates in this run."""
    if backend == "sqlite":
        return raw.sqlite_rates(JOBS)
    if backend == "postgres":
        return raw.postgres_rates(url, JOBS)
    return raw.memory_rates(JOBS)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[offpath.App, offpath.Task[[int], int, int]]]:
    """An app with one no-op task on the store under test."""
    app = offpath.App(url, migrate=True, auto_start=False)

    @app.task
    async def noop(n: int) -> int:
        return n

    async with app:
        yield app, noop


async def enqueue_one(backend: str, url: str) -> Measurement:
    """One caller that awaits each enqueue."""
    async with opened(url) as (_, noop):
        for n in range(_COLD):
            await noop.enqueue(n)
        server = server_cpu(url) if backend == "postgres" else None
        start, cpu = time.perf_counter(), time.process_time()
        for n in range(_SINGLES):
            await noop.enqueue(n)
        measured = _rate("enqueue_one", backend, _SINGLES, start, cpu)
        if server is not None:
            beside = (server_cpu(url) or 0.0) - server
            measured.note = f"{_SINGLES:,} jobs, the server {beside / _SINGLES * 1e6:.0f} µs each"
        return measured


async def enqueue_concurrent(backend: str, url: str) -> Measurement:
    """A hundred callers at once, each awaiting its own enqueue."""
    async with opened(url) as (_, noop):

        async def caller() -> None:
            for n in range(_CONCURRENT // _CALLERS):
                await noop.enqueue(n)

        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(caller() for _ in range(_CALLERS)))
        return _rate("enqueue_concurrent", backend, _CONCURRENT, start, cpu)


async def enqueue_bulk(backend: str, url: str) -> Measurement:
    """Lists of a thousand."""
    async with opened(url) as (app, noop):
        start, cpu = time.perf_counter(), time.process_time()
        for first in range(0, JOBS, _BULK):
            await app.enqueue([noop.job(n) for n in range(first, first + _BULK)])
        return _rate("enqueue_bulk", backend, JOBS, start, cpu)


async def process(backend: str, url: str) -> Measurement:
    """A backlog of no-op jobs through one worker, until the last one is settled."""
    async with opened(url) as (app, noop):
        measured = await _worked_off(backend, url, app, noop)
        await _require_succeeded(app, JOBS)
        return measured


async def process_unvacuumed(backend: str, url: str) -> Measurement:
    """The case ``process``, many times in a table without a vacuum: the last beside the first.

    Then a vacuum, and three more.
    """
    async with opened(url) as (app, noop):
        if backend == "postgres":
            _leave_unvacuumed(url)
        rounds = [await _worked_off(backend, url, app, noop) for _ in range(_ROUNDS)]
        told = _aged("process_unvacuumed", rounds)
        if backend == "postgres":
            _vacuum(url)
            cleaned = [await _worked_off(backend, url, app, noop) for _ in range(_ENDS)]
            told.note += f", after a vacuum {_used(cleaned):.1f}"
        await _require_succeeded(app, JOBS * (len(rounds) + (backend == "postgres") * _ENDS))
    return told


async def process_beside_snapshot(backend: str, url: str) -> Measurement:
    """The case ``process``, many times beside a snapshot of another session; then pick-ups."""
    app = offpath.App(url, migrate=True, auto_start=False)

    @app.task
    async def probe(started: float) -> None:  # noqa: ARG001 - in the lane of the pick-ups
        return None

    async with app:
        with _snapshot(backend, url):
            rounds = [await _worked_off(backend, url, app, probe) for _ in range(_HELD_ROUNDS)]
            picked = await _pickup(backend, url, 50)
    told = _aged("process_beside_snapshot", rounds)
    told.p50_ms, told.p99_ms = picked.p50_ms, picked.p99_ms
    return told


def _aged(case: str, rounds: Sequence[Measurement]) -> Measurement:
    """The last backlogs of one table beside the first."""
    first, last = rounds[:_ENDS], rounds[-_ENDS:]
    return Measurement(
        bench="jobs",
        backend=rounds[0].backend,
        case=case,
        raw_per_s=median(each.per_s or 0.0 for each in first),
        per_s=median(each.per_s or 0.0 for each in last),
        cpu_us_per_job=median(each.cpu_us_per_job or 0.0 for each in last),
        server_us_per_job=median(each.server_us_per_job or 0.0 for each in last),
        cpu_ratio=_used(first) / _used(last),
        note=f"raw is the first of {JOBS * len(rounds):,} jobs; CPU of worker and server "
        f"{_used(first):.1f} µs a job, in the end {_used(last):.1f}",
    ).beside({})


def _used(rounds: Sequence[Measurement]) -> float:
    return median((each.cpu_us_per_job or 0.0) + (each.server_us_per_job or 0.0) for each in rounds)


async def _worked_off(
    backend: str, url: str, app: offpath.App, task: offpath.Task[..., Any, Any]
) -> Measurement:
    for first in range(0, JOBS, _BULK):
        await app.enqueue([task.job(n) for n in range(first, first + _BULK)])
    worker = app.worker(concurrency=CONCURRENCY)
    server = server_cpu(url) if backend == "postgres" else None
    start, cpu = time.perf_counter(), time.process_time()
    await worker.run_until_idle()
    measured = _rate("process", backend, JOBS, start, cpu)
    await worker.stop()
    if server is not None:
        beside = ((server_cpu(url) or server) - server) / JOBS * 1e6
        measured.server_us_per_job, measured.note = beside, f"the server {beside:.1f} µs a job"
    return measured


def _leave_unvacuumed(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("alter table offpath.job set (autovacuum_enabled = false)")


def _vacuum(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum offpath.job")


@contextmanager
def _snapshot(backend: str, url: str) -> Iterator[None]:
    """Another session, in whose transaction what is there now stays visible."""
    if backend == "memory":
        yield
    elif backend == "sqlite":
        place = urlsplit(url).path
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            connection.execute("begin")
            connection.execute("select count(*) from offpath_job").fetchone()
            yield
    else:
        import psycopg

        with psycopg.connect(url) as other:
            other.execute("set transaction isolation level repeatable read")
            other.execute("select 1 from offpath.job limit 1")
            yield


async def process_beside_lanes(backend: str, url: str) -> Measurement:
    """The case ``process``, beside ready jobs of 20,000 tasks that this worker does not have."""
    async with opened(url) as (app, _):
        for first in range(0, _LANES, _BULK):
            names = (f"other.{n}" for n in range(first, first + _BULK))
            await app.enqueue([app.by_name(name, registered=False).job() for name in names])
    measured = await process(backend, url)
    measured.case = "process_beside_lanes"
    return measured


async def latency(backend: str, url: str) -> Measurement:
    """From enqueue on one side to the handler's first line in an idle worker."""
    app = offpath.App(url, migrate=True, auto_start=False)
    seen: asyncio.Queue[float] = asyncio.Queue()

    @app.task
    async def probe() -> None:
        seen.put_nowait(time.perf_counter())

    waits = []
    # Enqueued through a second app: no in-process signal may help.
    sender = offpath.App(url, auto_start=False) if backend != "memory" else app
    async with app:
        running = asyncio.create_task(app.worker(concurrency=CONCURRENCY).run())
        for number in range(_PROBES + _WARM_UP):
            start = time.perf_counter()
            await sender.by_name("probe", registered=False).enqueue()
            picked = await asyncio.wait_for(seen.get(), 30)
            if number >= _WARM_UP:  # the first ones meet cold caches
                waits.append((picked - start) * 1e3)
            await asyncio.sleep(_GAP)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if sender is not app:
            await sender.close()
    return Measurement(
        bench="jobs",
        backend=backend,
        case="latency",
        p50_ms=percentile(waits, 0.5),
        p99_ms=percentile(waits, 0.99),
        note=f"{_PROBES} probes, enqueue included",
    )


async def idle(backend: str, url: str) -> Measurement:
    """The cost of a worker with nothing to do, and of its server."""
    return await _idle("idle", backend, url, 1)


async def idle_fleet(backend: str, url: str) -> Measurement:
    """The cost of two hundred workers with nothing to do, in one process, and of their server."""
    return await _idle("idle_fleet", backend, url, _FLEET)


async def _idle(case: str, backend: str, url: str, workers: int) -> Measurement:
    async with opened(url) as (app, _):
        fleet = [app.worker(concurrency=CONCURRENCY) for _ in range(workers)]
        running = [asyncio.create_task(worker.run()) for worker in fleet]
        await asyncio.sleep(_SETTLING)
        server = server_cpu(url) if backend == "postgres" else None
        cpu = time.process_time()
        await asyncio.sleep(_IDLE_SECONDS)
        used = time.process_time() - cpu
        beside = None if server is None else (server_cpu(url) or 0.0) - server
        await asyncio.gather(*(worker.stop() for worker in fleet))
        await asyncio.gather(*running, return_exceptions=True)
    note = f"{used / _IDLE_SECONDS:.2%} of a core"
    if beside is not None:
        note += f", the server {beside / _IDLE_SECONDS:.2%}"
    return Measurement(
        bench="jobs",
        backend=backend,
        case=case,
        cpu_s_per_min=used / _IDLE_SECONDS * 60,
        core_percent=(used + (beside or 0.0)) / _IDLE_SECONDS * 100,
        server_percent=None if beside is None else beside / _IDLE_SECONDS * 100,
        note=note,
    )


async def _pickup(backend: str, url: str, rate: int) -> Measurement:
    """From enqueue to the handler's first line, at a steady rate, whatever the last probe does.

    The sender is another process, as in a service; over memory it is in this one.
    """
    probes = _STEADY[rate]
    app = offpath.App(url, migrate=True, auto_start=False)
    waits: list[float] = []
    over = asyncio.Event()

    @app.task
    async def probe(started: float) -> None:
        waits.append((time.monotonic() - started) * 1e3)
        if len(waits) == _WARM_UP + probes:
            over.set()

    async with app:
        running = asyncio.create_task(app.worker(concurrency=CONCURRENCY).run())
        server = server_cpu(url) if backend == "postgres" else None
        cpu = time.process_time()
        if backend == "memory":
            await send(app, rate, probes, _WARM_UP)
        else:
            await _send_elsewhere(url, rate, probes)
        async with asyncio.timeout(30):
            await over.wait()
        used = time.process_time() - cpu
        beside = None if server is None else (server_cpu(url) or server) - server
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    note = f"{rate} jobs a second, {probes} probes, enqueue included"
    if beside is not None:
        note += f", the server {beside / (_WARM_UP + probes) * 1e6:.0f} µs each"
    return Measurement(
        bench="jobs",
        backend=backend,
        case=f"pickup_{rate}",
        p50_ms=percentile(waits[_WARM_UP:], 0.5),
        p99_ms=percentile(waits[_WARM_UP:], 0.99),
        cpu_us_per_job=used / (_WARM_UP + probes) * 1e6,
        note=note,
    )


async def _send_elsewhere(url: str, rate: int, probes: int) -> None:
    """Send the probes from another process, and wait until they are sent."""
    values = (url, str(rate), str(probes), str(_WARM_UP))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.sender", *values
    )
    if await process.wait():
        msg = f"the sender ended with code {process.returncode}"
        raise RuntimeError(msg)


async def pickup_1(backend: str, url: str) -> Measurement:
    """Latency at one job a second."""
    return await _pickup(backend, url, 1)


async def pickup_50(backend: str, url: str) -> Measurement:
    """Latency at fifty jobs a second."""
    return await _pickup(backend, url, 50)


async def pickup_500(backend: str, url: str) -> Measurement:
    """Latency at five hundred jobs a second."""
    return await _pickup(backend, url, 500)


CASES: dict[str, Case] = {
    each.__name__: each
    for each in (
        *(
            enqueue_one,
            enqueue_concurrent,
            enqueue_bulk,
            process,
            process_beside_lanes,
            process_unvacuumed,
            process_beside_snapshot,
        ),
        *(latency, pickup_1, pickup_50, pickup_500, idle, idle_fleet),
    )
}


def settings() -> str:
    """The settings that the figures depend on."""
    return (
        f"{JOBS:,} no-op async jobs, concurrency {CONCURRENCY}, one worker process, durable, "
        f"results kept, {os.cpu_count()} cores shared with the database"
    )


def _rate(case: str, backend: str, count: int, start: float, cpu: float) -> Measurement:
    return Measurement(
        bench="jobs",
        backend=backend,
        case=case,
        per_s=count / (time.perf_counter() - start),
        cpu_us_per_job=(time.process_time() - cpu) / count * 1e6,
    )


async def _require_succeeded(app: offpath.App, jobs: int) -> None:
    done = await app.jobs.count(state="succeeded")
    if done != jobs:
        msg = f"only {done} of {jobs} jobs succeeded"
        raise RuntimeError(msg)
