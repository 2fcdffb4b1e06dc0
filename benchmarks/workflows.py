"""Workflows and flow control, each beside the plain work of the same run."""

from __future__ import annotations

import asyncio
import operator
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

import offpath
from benchmarks.memory import resident
from benchmarks.report import Measurement, percentile
from offpath import Context, Limit, Plan
from offpath.config import Settings

JOBS = 10_000
CONCURRENCY = 100
_BULK = 1_000
_ROUNDS = 3
"""The number of times that each of two kinds of work is done, in turns."""
_KEYS = 10
_TENANTS = 1_000
_MAX_RUNNING = CONCURRENCY
"""Of each key: as much as the worker can run at all, so that no slot waits for a key."""
_SLOW_JOBS = 3_000
_SLOW = 0.05
_FAIR_KEYS = 50
_WATCHED = 1_000
_GATES = 7
_HEAD = 20_000
_PROBES = 30
_GAP = 0.05
_APPENDING = 100
_APPEND_ROUNDS = 20
_RESULT = 8_000
"""Bytes of a result of the case ``fan_in``."""

Case = Callable[[str, str], Coroutine[None, None, Measurement]]
Work = Callable[[], Awaitable[None]]


def raw_rates(_backend: str, _url: str) -> dict[str, float]:
    """None: each case has the plain work of the same run beside it."""
    return {}


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[offpath.App]:
    """An app on the store under test, without a worker."""
    settings = Settings(max_children=JOBS + 1)
    app = offpath.App(url, migrate=True, auto_start=False, settings=settings)
    async with app:
        yield app


@asynccontextmanager
async def working(app: offpath.App) -> AsyncIterator[None]:
    """With a worker that runs."""
    running = asyncio.create_task(app.worker(concurrency=CONCURRENCY).run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def fan_out(backend: str, url: str) -> Measurement:
    """One job that queues all others, and one that waits for all of them; beside the same jobs."""
    async with opened(url) as app:
        ends: list[int] = []

        @app.task
        async def part(n: int) -> int:
            return n

        @app.task
        async def end() -> None:
            ends.append(1)

        @app.task
        async def whole(ctx: Context, first: int) -> Plan[None, int]:
            jobs = [part.job(n) for n in range(first, first + JOBS)]
            return ctx.queue(*jobs).next(end.job())

        async def planned() -> None:
            before = len(ends)
            await whole.enqueue(len(ends) * JOBS)
            await _work_off(app)
            _require(len(ends), before + 1, "joined")

        async def plain() -> None:
            await _enqueue(app, [part.job(n) for n in range(JOBS)])
            await _work_off(app)

        return await _beside("fan_out", backend, planned, plain, JOBS)


async def fan_in(backend: str, url: str) -> Measurement:
    """A job reads what 10,000 others gave, 8 KB each; beside ten jobs that read 1,000 each."""
    async with opened(url) as app:
        took: list[float] = []

        @app.task(priority=1)
        async def part(n: int) -> str:
            return f"{n:08}" * (_RESULT // 8)

        @app.task
        async def end(ctx: Context, count: int) -> None:
            begun, read = time.perf_counter(), 0
            async for value in ctx.each_result(part):
                read += len(value) // _RESULT
            took.append(time.perf_counter() - begun)
            _require(read, count, "read")

        async def joined(count: int) -> float:
            jobs = [part.job(n) for n in range(count)]
            await app.enqueue([*jobs, offpath.gate(on=jobs, queue=[end.job(count)])])
            await _work_off(app)
            return took.pop()

        small = sum([await joined(JOBS // 10) for _ in range(10)])
        before = resident()
        large = await joined(JOBS)
        return Measurement(
            bench="workflows",
            backend=backend,
            case="fan_in",
            per_s=JOBS / large,
            raw_per_s=JOBS / small,
            ratio=small / large,
            note=f"plain: ten joins of a tenth; {resident() - before:.0f} MiB more behind it",
        )


async def gate_fires(backend: str, url: str) -> Measurement:
    """From the last line of the last of the watched jobs to the first line of the held one."""
    async with opened(url) as app:
        last = 0.0
        fired: asyncio.Queue[float] = asyncio.Queue()

        @app.task
        async def part() -> None:
            nonlocal last
            last = time.perf_counter()

        @app.task
        async def held() -> None:
            fired.put_nowait(time.perf_counter() - last)

        waits = []
        async with working(app):
            for _ in range(_GATES):
                jobs = [part.job() for _ in range(_WATCHED)]
                await app.enqueue([*jobs, offpath.gate(on=jobs, queue=[held.job()])])
                waits.append(await asyncio.wait_for(fired.get(), 60) * 1e3)
        note = f"{_GATES} gates on {_WATCHED:,} jobs; the second figure is the worst"
        return _waited("gate_fires", backend, waits, note)


async def limited(backend: str, url: str) -> Measurement:
    """No-ops of ten keys whose limits let every slot be used, beside no-ops without a limit."""

    async def noop(n: int) -> int:
        return n

    return await _limited("limited", backend, url, noop, JOBS, _key_of)


async def limited_slow(backend: str, url: str) -> Measurement:
    """The same with jobs that take 50 ms."""

    async def slow(n: int) -> int:
        await asyncio.sleep(_SLOW)
        return n

    return await _limited("limited_slow", backend, url, slow, _SLOW_JOBS, _key_of)


async def limited_lines(backend: str, url: str) -> Measurement:
    """No-ops of a thousand tenants that share a limit, each with two limits of which a full one
    holds it.
    """

    async def noop(n: int) -> int:
        return n

    def lines_of(n: int) -> list[Limit]:
        tenant = Limit(f"tenant-{n % _TENANTS}", max_running=2)
        return [Limit("shared", max_running=_MAX_RUNNING), tenant]

    return await _limited("limited_lines", backend, url, noop, JOBS, lines_of)


def _key_of(n: int) -> Limit:
    return Limit(f"key-{n % _KEYS}", max_running=_MAX_RUNNING)


async def _limited(
    case: str,
    backend: str,
    url: str,
    fn: Callable[[int], Awaitable[int]],
    jobs: int,
    limits: Callable[[int], Limit | list[Limit]],
) -> Measurement:
    async with opened(url) as app:
        free = app.task(name="free")(fn)
        bound = app.task(name="bound", limit=limits)(fn)

        async def with_limit() -> None:
            await _enqueue(app, [bound.job(n) for n in range(jobs)])
            await _work_off(app)

        async def without() -> None:
            await _enqueue(app, [free.job(n) for n in range(jobs)])
            await _work_off(app)

        return await _beside(case, backend, with_limit, without, jobs)


async def behind_limit(backend: str, url: str) -> Measurement:
    """From the enqueue of a free job to its first line, behind a head of limited ones."""
    async with opened(url) as app:
        started: asyncio.Queue[float] = asyncio.Queue()

        @app.task(limit=Limit(key="head", max_running=1), priority=10)
        async def head() -> None:
            await asyncio.sleep(_SLOW)

        @app.task
        async def free() -> None:
            started.put_nowait(time.perf_counter())

        await _enqueue(app, [head.job() for _ in range(_HEAD)])
        waits = []
        async with working(app):
            for _ in range(_PROBES):
                await asyncio.sleep(_GAP)
                start = time.perf_counter()
                await free.enqueue()
                waits.append((await asyncio.wait_for(started.get(), 60) - start) * 1e3)
        note = f"{_PROBES} probes behind {_HEAD:,} jobs; the second figure is the worst"
        return _waited("behind_limit", backend, waits, note)


async def balanced(backend: str, url: str) -> Measurement:
    """A worker that balances fifty fair keys, beside the plain order over the same jobs."""
    async with opened(url) as app:

        @app.task(fair_key=lambda n: f"tenant-{n % _FAIR_KEYS}")
        async def noop(n: int) -> int:
            return n

        async def in_turns() -> None:
            await _enqueue(app, [noop.job(n) for n in range(JOBS)])
            await app.worker(concurrency=CONCURRENCY, dispatch="balanced").run_until_idle()

        async def plain() -> None:
            await _enqueue(app, [noop.job(n) for n in range(JOBS)])
            await _work_off(app)

        return await _beside("balanced", backend, in_turns, plain, JOBS)


async def append(backend: str, url: str) -> Measurement:
    """A hundred children add 1 to the value of their group, again and again: counted exactly."""
    async with opened(url) as app:

        @app.task
        async def one(ctx: Context) -> Plan[int, int]:
            return ctx.result(1, append=operator.add)

        @app.task
        async def count(ctx: Context) -> Plan[None, int]:
            return ctx.queue(*(one.job() for _ in range(_APPENDING)))

        start, cpu = time.perf_counter(), time.process_time()
        async with working(app):
            handles = [await count.enqueue() for _ in range(_APPEND_ROUNDS)]
            values = [await handle.group(timeout=60) for handle in handles]
        used, spent = time.process_time() - cpu, time.perf_counter() - start
        _require(values.count(_APPENDING), _APPEND_ROUNDS, "groups counted exactly")
        jobs = _APPEND_ROUNDS * _APPENDING
        return Measurement(
            bench="workflows",
            backend=backend,
            case="append",
            per_s=jobs / spent,
            cpu_us_per_job=used / jobs * 1e6,
            note=f"{_APPEND_ROUNDS} groups of {_APPENDING} children, all exact",
        )


CASES: dict[str, Case] = {
    each.__name__: each
    for each in (
        fan_out,
        fan_in,
        gate_fires,
        limited,
        limited_slow,
        limited_lines,
        behind_limit,
        balanced,
        append,
    )
}


def settings() -> str:
    """The settings that the figures depend on."""
    return (
        f"{JOBS:,} no-op async jobs, concurrency {CONCURRENCY}, one worker process, durable, "
        f"raw is the plain work of the same run in turns, {os.cpu_count()} cores shared with the "
        "database"
    )


async def _beside(case: str, backend: str, work: Work, plain: Work, jobs: int) -> Measurement:
    """Both kinds of work in turns, from the enqueue to the last end."""
    costs = {work: [0.0, 0.0], plain: [0.0, 0.0]}
    for _ in range(_ROUNDS):
        for each in (plain, work):
            start, cpu = time.perf_counter(), time.process_time()
            await each()
            costs[each][0] += time.perf_counter() - start
            costs[each][1] += time.process_time() - cpu
    total = _ROUNDS * jobs
    (seconds, used), (plain_seconds, plain_used) = costs[work], costs[plain]
    return Measurement(
        bench="workflows",
        backend=backend,
        case=case,
        per_s=total / seconds,
        raw_per_s=total / plain_seconds,
        ratio=plain_seconds / seconds,
        cpu_us_per_job=used / total * 1e6,
        note=f"plain: {plain_used / total * 1e6:.0f} µs of CPU",
    )


def _waited(case: str, backend: str, waits: list[float], note: str) -> Measurement:
    return Measurement(
        bench="workflows",
        backend=backend,
        case=case,
        p50_ms=percentile(waits, 0.5),
        p99_ms=max(waits),
        note=note,
    )


async def _enqueue(app: offpath.App, jobs: list[offpath.Job[object, object]]) -> None:
    for first in range(0, len(jobs), _BULK):
        await app.enqueue(jobs[first : first + _BULK])


async def _work_off(app: offpath.App) -> None:
    worker = app.worker(concurrency=CONCURRENCY)
    await worker.run_until_idle()
    await worker.stop()


def _require(had: int, wanted: int, what: str) -> None:
    if had != wanted:
        msg = f"{had} of {wanted} {what}"
        raise RuntimeError(msg)
