"""Leases beside rows that they may not take, and the same lease without those rows."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import NamedTuple
from urllib.parse import urlsplit

import offpath
from benchmarks.report import Measurement, percentile
from benchmarks.server import CpuMeter
from benchmarks.stores import fresh_store
from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.model.lease import LeaseRequest, Order, WorkerInfo
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.ids import new_id
from offpath.store.protocol import Store

LEASE = 100
"""Jobs a lease."""
_ROUNDS = 60
_BACKLOG = 1_000
"""Ready jobs of its own that a lease finds at least."""
_FAIR_KEYS = 50
"""Fair keys of the backlog of its own."""
_LANES = 100_000
_KEYS = 100_000
_QUEUES = 1_000
_SCHEDULED = 1_000_000
_FINISHED = 5_000_000
_LIMITED = 20_000

Case = Callable[[str, str], Coroutine[None, None, Measurement]]

_WORKER = "bench"
_COLUMNS = "id, state, task, queue, enqueued_at, run_at, input, fingerprint, options"


class Rows(NamedTuple):
    """Rows to fill in, as expressions of SQL over ``n``, which counts from 1."""

    number: int
    state: str = "ready"
    task: str = "'mine'"
    queue: str = "'default'"
    fair_key: str = "null"
    ahead: int = 0
    """Seconds until they are due."""
    columns: str = ""
    values: str = ""


class Crowd(NamedTuple):
    """What lies beside, and how the lease is asked for."""

    rows: Rows
    order: Order = Order.PRIORITY
    queues: int = 1
    """Queues of the lease's own jobs."""


CROWDS = {
    "lanes_of_others": lambda: Crowd(
        Rows(_LANES, task="'other-' || n", queue="'queue-' || n % 500")
    ),
    "queues_of_others": lambda: Crowd(Rows(_LANES, task="'other'", queue="'queue-' || n")),
    "fair_keys": lambda: Crowd(Rows(_KEYS, fair_key="'key-' || n"), Order.BALANCED),
    "fair_keys_by_age": lambda: Crowd(Rows(_KEYS, fair_key="'key-' || n"), Order.AGE),
    "fair_keys_of_others": lambda: Crowd(
        Rows(_KEYS, task="'other'", fair_key="'key-' || n"), Order.BALANCED
    ),
    "queues": lambda: Crowd(
        Rows(10 * _QUEUES, queue=f"'queue-' || (n % {_QUEUES} + 1)"), queues=_QUEUES
    ),
    "scheduled": lambda: Crowd(Rows(_SCHEDULED, state="scheduled", ahead=86_400)),
    "finished": lambda: Crowd(
        Rows(_FINISHED, state="succeeded", columns="finished_at", values="{now}")
    ),
    "limit_blocked": lambda: Crowd(
        Rows(
            _LIMITED,
            state="blocked",
            columns="reason, limit_key",
            values="'limit', 'key-' || n % 10",
        )
    ),
}


def raw_rates(_backend: str, _url: str) -> dict[str, float]:
    """None: each case has the plain lease of the same run beside it."""
    return {}


def settings() -> str:
    """The settings that the figures depend on."""
    return f"leases of {LEASE} jobs, {_ROUNDS} in turns with plain ones, {os.cpu_count()} cores"


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    async with offpath.App(url, migrate=True, auto_start=False) as app:
        store = app.store()
        info = WorkerInfo(
            id=_WORKER, host="h", pid=1, version="1", concurrency=LEASE, tasks=("mine",)
        )
        await store.register(info, lease_seconds=3_600)
        yield store


async def _add(store: Store, count: int, queues: int) -> None:
    jobs = (
        NewJob(
            id=new_id(),
            task="mine",
            queue="default" if queues == 1 else f"queue-{n % queues + 1}",
            input="{}",
            fingerprint="",
            fair_key=f"own-{n % _FAIR_KEYS}",
        )
        for n in range(count)
    )
    await store.commit(Effects(jobs=tuple(jobs)))


async def _leased(store: Store, order: Order, meter: CpuMeter) -> tuple[float, float]:
    """Seconds of one lease, and those of CPU; what it took is ended, so the next one finds other
    jobs.
    """
    request = LeaseRequest(worker=_WORKER, limit=LEASE, tasks={"mine": LEASE}, order=order)
    begun, cpu = time.perf_counter(), meter.spent()
    leased = await store.lease(request)
    spent = time.perf_counter() - begun, meter.spent() - cpu
    if len(leased.jobs) < LEASE:
        msg = f"a lease gave {len(leased.jobs)} of {LEASE} jobs"
        raise RuntimeError(msg)
    await store.settle([Settlement(job=job, outcome=Succeeded()) for job in leased.jobs])
    return spent


async def _measured(case: str, backend: str, url: str) -> Measurement:
    crowd = CROWDS[case]()
    async with AsyncExitStack() as stack:
        other = stack.enter_context(fresh_store(backend, url))
        beside = await stack.enter_async_context(_opened(url))
        plain = await stack.enter_async_context(_opened(other))
        fill(backend, url, crowd.rows)
        await _add(beside, _BACKLOG, crowd.queues)
        await _add(plain, _BACKLOG, 1)
        meters = [CpuMeter(each if backend == "postgres" else None) for each in (url, other)]
        spent: tuple[list[float], list[float]] = ([], [])
        used: tuple[list[float], list[float]] = ([], [])
        for _ in range(_ROUNDS):
            for n, store in enumerate((beside, plain)):
                await _add(store, LEASE, crowd.queues if store is beside else 1)
                took, cpu = await _leased(store, crowd.order, meters[n])
                spent[n].append(took)
                used[n].append(cpu)
    # the quicker ones: whatever else the machine does falls upon the slower ones
    cpus = [percentile(each, 0.25) for each in used]
    return Measurement(
        bench="leases",
        backend=backend,
        case=case,
        per_s=LEASE / cpus[0],
        raw_per_s=LEASE / cpus[1],
        p50_ms=percentile(spent[0], 0.5) * 1e3,
        p99_ms=percentile(spent[0], 0.99) * 1e3,
        cpu_us_per_job=cpus[0] / LEASE * 1e6,
        note=f"{crowd.rows.number:,} rows beside; a lease of {cpus[0] * 1e3:.2f} ms of CPU, the "
        f"plain one {cpus[1] * 1e3:.2f}",
    )


def fill(backend: str, url: str, rows: Rows) -> None:
    """Add rows by the database's own statements."""
    match backend:
        case "sqlite":
            _fill_sqlite(urlsplit(url).path, rows)
        case "postgres":
            _fill_postgres(url, rows)
        case _:
            msg = f"no rows can be filled into {backend}"
            raise ValueError(msg)


def _statement(rows: Rows, table: str, *, now: str, later: str, id_: str, series: str) -> str:
    columns, values = _COLUMNS + ", fair_key", rows.fair_key
    if rows.columns:
        columns, values = f"{columns}, {rows.columns}", f"{values}, {rows.values.format(now=now)}"
    more = ", priority, group_id" if "sqlite" in series else ""
    return (
        f"insert into {table} ({columns}{more}) "
        f"select {id_}, '{rows.state}', {rows.task}, {rows.queue}, {now}, {later}, "
        f"'{{}}', '', '{{}}', {values}{', 0, n' if more else ''} from {series}"
    )


def _fill_sqlite(path: str, rows: Rows) -> None:
    now = int(time.time() * 1e6)
    text = _statement(
        rows,
        "offpath_job",
        now=str(now),
        later=str(now + rows.ahead * 1_000_000),
        id_="printf('01900000-0000-7000-8000-%012x', n)",
        series="sqlite_series",
    )
    series = (
        f"with recursive sqlite_series (n) as ("
        f"select 1 union all select n + 1 from sqlite_series where n < {rows.number}) "
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(series + text)


def _fill_postgres(url: str, rows: Rows) -> None:
    import psycopg

    text = _statement(
        rows,
        "offpath.job",
        now="now()",
        later=f"now() + interval '{rows.ahead} seconds'",
        id_="('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid",
        series=f"generate_series(1, {rows.number}) as n",
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())


def _case(name: str) -> Case:
    async def measure(backend: str, url: str) -> Measurement:
        return await _measured(name, backend, url)

    measure.__name__ = name
    return measure


CASES: dict[str, Case] = {name: _case(name) for name in CROWDS}
