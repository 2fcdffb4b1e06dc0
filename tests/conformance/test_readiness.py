"""A worker is judged by its own loops and its store, the fleet by all that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from offpath import App
from offpath.events import Event
from offpath.health.fleet import FleetHealth, examine
from offpath.health.thresholds import Thresholds
from offpath.jobs.worker.app_worker import AppWorker
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import add, die, start

TWO_WEEKS = 14 * 86_400.0
PATIENCE = 60.0
"""Real seconds within which the loops of a new worker have each had their turn."""


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    async with App(store=store, clock=clock, auto_start=False) as made:
        yield made


async def a_letter_under_examination(app: App, clock: ManualClock) -> str:
    await die(app.store(), await start(app.store()))
    clock.advance(TWO_WEEKS)
    return "the oldest dead letter"


async def another_services_queue_rests(app: App, clock: ManualClock) -> str:
    await add(app.store(), task="nightly", queue="theirs")
    clock.advance(8 * 3_600)
    return "the oldest due job of queue theirs"


async def a_flood(app: App, clock: ManualClock) -> str:
    @app.task
    async def ours() -> None:
        return None

    await app.enqueue([ours.job() for _ in range(200)])
    clock.advance(600)
    return "the oldest due job of queue default"


async def unused(_: Event) -> None:
    """The worker under test relays nothing."""


async def an_event_that_nobody_relays(app: App, clock: ManualClock) -> str:
    app.outbox("theirs", dispatcher=unused)
    await app.publish("t", 1, stream="theirs")
    clock.advance(600)
    return "the oldest undelivered event of stream theirs"


async def fleet(app: App) -> FleetHealth:
    store = app.store()
    return await examine(store, Thresholds(store, app.settings))


async def until(found: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not found():  # noqa: ASYNC110 - several loops lead to it, none tells
            await asyncio.sleep(0)


def counted(worker: AppWorker) -> bool:
    """True if it has looked at what waits in the store, too."""
    return bool(worker.report().gauges)


@pytest.mark.parametrize(
    "trouble",
    [
        a_letter_under_examination,
        another_services_queue_rests,
        a_flood,
        an_event_that_nobody_relays,
    ],
)
async def test_a_new_worker_is_ready_whatever_others_have_left(
    app: App, clock: ManualClock, trouble: Callable[[App, ManualClock], Awaitable[str]]
) -> None:
    old = await trouble(app, clock)
    assert any(reason.startswith(old) for reason in (await fleet(app)).reasons)
    async with app.worker(relays=False) as worker:
        await until(lambda: worker.report().ready and counted(worker))
        assert worker.report().reasons == ()
        if trouble is not a_flood:  # which it works off while we look
            assert any(told.startswith(old) for told in worker.report().warnings)
