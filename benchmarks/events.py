"""Events: publishing, relaying, the inbox and the router, with every row kept."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import offpath
from benchmarks import raw, raw_events
from benchmarks.report import Measurement
from offpath.events import Event, InboxMessage

EVENTS = 20_000
_CALLERS = 100
_BULK = 1_000

Case = Callable[[str, str], Coroutine[None, None, Measurement]]


def raw_rates(backend: str, url: str) -> dict[str, float]:
    """The bare database's rates in this run."""
    if backend == "memory":
        return {"relay": raw.memory_rates(EVENTS)["process"]}
    jobs = raw.sqlite_rates(EVENTS) if backend == "sqlite" else raw.postgres_rates(url, EVENTS)
    rates = {
        "publish_bulk": jobs["enqueue_bulk"],
        "relay": jobs["process"],
        "relay_ordered": jobs["process"],
        # one row in and out again: the two rates one after the other
        "inbox": 1 / (1 / jobs["enqueue_bulk"] + 1 / jobs["process"]),
    }
    routed = raw_events.sqlite_route if backend == "sqlite" else raw_events.postgres_route
    return rates | {"route": routed(url, EVENTS)}


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[offpath.App]:
    """An app on the store under test, without a worker."""
    app = offpath.App(url, migrate=True, auto_start=False)
    async with app:
        yield app


async def publish_bulk(backend: str, url: str) -> Measurement:
    """Batches of a thousand events."""
    async with opened(url) as app:
        start, cpu = time.perf_counter(), time.process_time()
        await _publish(app, keys=0)
        return _rate("publish_bulk", backend, start, cpu)


async def relay(backend: str, url: str) -> Measurement:
    """A backlog of events to a dispatcher that does nothing."""
    return await _relay("relay", backend, url, ordered=False)


async def relay_ordered(backend: str, url: str) -> Measurement:
    """The same in an ordered stream of a thousand keys."""
    return await _relay("relay_ordered", backend, url, ordered=True)


async def _relay(case: str, backend: str, url: str, *, ordered: bool) -> Measurement:
    async with opened(url) as app:
        seen = 0

        async def dispatch(_: Event) -> None:
            nonlocal seen
            seen += 1

        app.outbox(dispatcher=dispatch, ordered=ordered)
        await _publish(app, keys=1_000 if ordered else 0)
        relays = app.relay()
        start, cpu = time.perf_counter(), time.process_time()
        while seen < EVENTS:
            await relays.step()
        await relays.stop(10.0)
        measured = _rate(case, backend, start, cpu)
        backlog = await app.message_backlog()
        if seen != EVENTS or any(row.due for row in backlog):
            msg = f"{seen} of {EVENTS} events were dispatched; left: {backlog}"
            raise RuntimeError(msg)
        return measured


async def inbox(backend: str, url: str) -> Measurement:
    """A hundred callers accept messages one by one; then a drain applies them."""
    async with opened(url) as app:
        applied = 0

        @app.inbox("bench")
        async def apply(_: InboxMessage) -> None:
            nonlocal applied
            applied += 1

        async def caller(first: int) -> None:
            for n in range(first, EVENTS, _CALLERS):
                await app.accept("bench", f"key-{n}", {"n": n})

        drains = app.drain("bench")
        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(caller(first) for first in range(_CALLERS)))
        accepted = time.perf_counter() - start
        while applied < EVENTS:
            await drains.step()
        await drains.stop(10.0)
        measured = _rate("inbox", backend, start, cpu)
        measured.note = f"accepted at {EVENTS / accepted:,.0f}/s, then applied"
        return measured


async def route(backend: str, url: str) -> Measurement:
    """A log through a router whose routes are dry runs."""
    async with opened(url) as app:
        router = app.router("bench", domain="bench", start="beginning")
        router.route(type="order.*", enabled=True)
        router.route(type="order.paid", stream="eu", enabled=True)
        for first in range(0, EVENTS, _BULK):
            async with app.batch() as batch:
                for n in range(first, first + _BULK):
                    batch.append("bench", "order.paid", "eu", {"n": n}, key=f"k{n % 1000}")
        await app.routers.open_gate()
        await router.open_gate()
        start, cpu = time.perf_counter(), time.process_time()
        passed = 0
        while (run := await router.run_once()).passed:
            passed += run.passed
        measured = _rate("route", backend, start, cpu)
        if passed != EVENTS:
            msg = f"only {passed} of {EVENTS} events were passed"
            raise RuntimeError(msg)
        return measured


CASES: dict[str, Case] = {
    each.__name__: each for each in (publish_bulk, relay, relay_ordered, inbox, route)
}


def settings() -> str:
    """The settings that the figures depend on."""
    return (
        f"{EVENTS:,} events, a dispatcher or handler that does nothing, one process, durable, "
        f"every row kept, {os.cpu_count()} cores shared with the database"
    )


async def _publish(app: offpath.App, *, keys: int) -> None:
    for first in range(0, EVENTS, _BULK):
        async with app.batch() as batch:
            for n in range(first, first + _BULK):
                batch.publish("bench.event", {"n": n}, key=f"k{n % keys}" if keys else None)


def _rate(case: str, backend: str, start: float, cpu: float) -> Measurement:
    return Measurement(
        bench="events",
        backend=backend,
        case=case,
        per_s=EVENTS / (time.perf_counter() - start),
        cpu_us_per_job=(time.process_time() - cpu) / EVENTS * 1e6,
    )
