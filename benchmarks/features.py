"""What each feature adds to a plain job: CPU of worker and server, and bytes."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from itertools import count
from typing import NamedTuple
from urllib.parse import urlsplit

import offpath
from benchmarks.report import Measurement
from benchmarks.server import server_cpu
from offpath import Context, Limit, Plan

JOBS = 5_000
CONCURRENCY = 100
_BULK = 1_000
_ROUNDS = 3
"""The number of times that the plain jobs and those with the feature are done, in turns."""
_KEYS = 10

Case = Callable[[str, str], Coroutine[None, None, Measurement]]
Work = Callable[[], Awaitable[None]]


class Cost(NamedTuple):
    """The cost of some jobs, from their enqueue to their ends. CPU is in seconds."""

    worker: float
    server: float
    size: float
    """Bytes: of the log of a Postgres server, of the file of SQLite."""


def raw_rates(_backend: str, _url: str) -> dict[str, float]:
    """None: each case has the plain jobs of the same run beside it."""
    return {}


def settings() -> str:
    """The settings that the figures depend on."""
    return f"{JOBS:,} no-op jobs, {_ROUNDS} times in turns with plain ones, {os.cpu_count()} cores"


async def child(backend: str, url: str) -> Measurement:
    """A job that another one queues as it ends."""
    async with _opened(url) as app:

        @app.task
        async def part(n: int) -> int:
            return n

        @app.task
        async def parent(ctx: Context, n: int) -> Plan[None, int]:
            return ctx.queue(part.job(n))

        return await _added(app, "child", backend, url, parent.job)


async def gate_member(backend: str, url: str) -> Measurement:
    """A job that a gate watches."""
    async with _opened(url) as app:

        @app.task
        async def part(n: int) -> int:
            return n

        @app.task
        async def end() -> None:
            pass

        async def watched() -> None:
            for first in range(0, JOBS, _BULK):
                jobs = [part.job(n) for n in range(first, min(first + _BULK, JOBS))]
                await app.enqueue([*jobs, offpath.gate(on=jobs, queue=[end.job()])])
            await _work_off(app)

        return await _beside(app, "gate_member", backend, url, watched)


async def unique_key(backend: str, url: str) -> Measurement:
    """A job with a unique key of its own."""
    numbers = count()
    return await _with_options(
        "unique_key", backend, url, lambda _: {"unique": f"key-{next(numbers)}"}
    )


async def limit_key(backend: str, url: str) -> Measurement:
    """A job with a limit whose key has room for all."""

    def options(n: int) -> dict[str, object]:
        return {"limit": Limit(key=f"key-{n % _KEYS}", max_running=CONCURRENCY)}

    return await _with_options("limit_key", backend, url, options)


async def fair_key(backend: str, url: str) -> Measurement:
    """A job with a fair key, taken in the plain order."""
    return await _with_options("fair_key", backend, url, lambda n: {"fair_key": f"key-{n % _KEYS}"})


async def header(backend: str, url: str) -> Measurement:
    """A job with one header."""
    return await _with_options("header", backend, url, lambda _: {"headers": {"tenant": "a"}})


async def announced(backend: str, url: str) -> Measurement:
    """A job whose success becomes an event of the outbox."""
    return await _with_options("announced", backend, url, lambda _: {"announce": ("succeeded",)})


async def outbox_row(backend: str, url: str) -> Measurement:
    """A job whose handler publishes one event."""
    async with _opened(url) as app:

        @app.task
        async def publishes(ctx: Context, n: int) -> int:
            ctx.publish("job.done", {"n": n})
            return n

        return await _added(app, "outbox_row", backend, url, publishes.job)


async def retry(backend: str, url: str) -> Measurement:
    """A job whose first attempt fails."""
    async with _opened(url) as app:
        failed: set[int] = set()

        @app.task(retry=offpath.RetryOptions(attempts=2, base=0.0))
        async def fails(n: int) -> int:
            if n not in failed:
                failed.add(n)
                raise RuntimeError
            failed.discard(n)
            return n

        return await _added(app, "retry", backend, url, fails.job)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[offpath.App]:
    async with offpath.App(url, migrate=True, auto_start=False) as app:
        yield app


async def _with_options(
    case: str, backend: str, url: str, options: Callable[[int], dict[str, object]]
) -> Measurement:
    async with _opened(url) as app:

        @app.task
        async def noop(n: int) -> int:
            return n

        def job(n: int) -> offpath.Job[object, object]:
            return noop.options(**options(n)).job(n)  # type: ignore[arg-type]

        return await _added(app, case, backend, url, job)


async def _added(
    app: offpath.App,
    case: str,
    backend: str,
    url: str,
    job: Callable[[int], offpath.Job[object, object]],
) -> Measurement:
    async def work() -> None:
        await _enqueue(app, job)
        await _work_off(app)

    return await _beside(app, case, backend, url, work)


async def _beside(app: offpath.App, case: str, backend: str, url: str, work: Work) -> Measurement:
    @app.task(name="plain")
    async def plain(n: int) -> int:
        return n

    async def plainly() -> None:
        await _enqueue(app, plain.job)
        await _work_off(app)

    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for _ in range(_ROUNDS):
        for each, spent in zip((plainly, work), costs, strict=True):
            spent.append(await _cost(backend, url, each))
    base, ours = (
        Cost(*(sorted(part)[_ROUNDS // 2] for part in zip(*each, strict=True))) for each in costs
    )
    more = Cost(*(one - other for one, other in zip(ours, base, strict=True)))
    return Measurement(
        bench="features",
        backend=backend,
        case=case,
        cpu_us_per_job=ours.worker / JOBS * 1e6,
        note=f"adds {more.worker / JOBS * 1e6:.1f} µs of the worker, "
        f"{more.server / JOBS * 1e6:.1f} of the server, {more.size / JOBS:.0f} bytes; "
        f"plain {base.worker / JOBS * 1e6:.1f}, {base.server / JOBS * 1e6:.1f}, "
        f"{base.size / JOBS:.0f}",
    )


async def _cost(backend: str, url: str, work: Work) -> Cost:
    size, server, cpu = _size(backend, url), _server(backend, url), time.process_time()
    await work()
    used = time.process_time() - cpu
    return Cost(used, _server(backend, url) - server, _size(backend, url) - size)


def _server(backend: str, url: str) -> float:
    return (server_cpu(url) or 0.0) if backend == "postgres" else 0.0


def _size(backend: str, url: str) -> float:
    match backend:
        case "postgres":
            import psycopg

            with psycopg.connect(url, autocommit=True) as connection:
                row = connection.execute("select pg_current_wal_insert_lsn() - '0/0'").fetchone()
                return float(row[0]) if row else 0.0
        case "sqlite":
            with closing(sqlite3.connect(urlsplit(url).path)) as connection:
                [[pages]] = connection.execute("pragma page_count").fetchall()
                [[size]] = connection.execute("pragma page_size").fetchall()
                return float(pages * size)
        case _:
            return 0.0


async def _enqueue(app: offpath.App, job: Callable[[int], offpath.Job[object, object]]) -> None:
    for first in range(0, JOBS, _BULK):
        await app.enqueue([job(n) for n in range(first, min(first + _BULK, JOBS))])


async def _work_off(app: offpath.App) -> None:
    worker = app.worker(concurrency=CONCURRENCY)
    await worker.run_until_idle()
    await worker.stop()


CASES: dict[str, Case] = {
    each.__name__: each
    for each in (
        *(child, gate_member, unique_key, limit_key, fair_key),
        *(header, announced, outbox_row, retry),
    )
}
