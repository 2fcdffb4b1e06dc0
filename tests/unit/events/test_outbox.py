"""Events: committed with what makes them true, relayed at least once, dead when they cannot be."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import offpath
from offpath.runtime.clock import ManualClock


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'events.db'}"


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    async with offpath.App(url, auto_start=False, migrate=True) as app:
        yield app


def told(app: offpath.App, stream: str = "default") -> list[offpath.Event]:
    """The events of a stream, as its dispatcher gets them."""
    seen: list[offpath.Event] = []

    @app.outbox(stream)
    async def dispatch(event: offpath.Event) -> None:
        seen.append(event)

    return seen


async def test_an_event_is_relayed_whole(app: offpath.App) -> None:
    seen = told(app)
    event_id = await app.publish(
        "order.paid", {"order": 7}, key="order-7", headers={"trace": "abc"}
    )
    await app.worker().run_until_idle()
    (event,) = seen
    assert event == offpath.Event(
        id=event_id,
        stream="default",
        topic="order.paid",
        payload={"order": 7},
        key="order-7",
        headers={"trace": "abc"},
        attempt=1,
    )
    assert "7}" not in repr(event), "a payload must not come into a log by accident"


async def test_a_sync_dispatcher_runs_in_a_thread(app: offpath.App) -> None:
    threads: list[int] = []

    @app.outbox("slow")
    def dispatch(event: offpath.Event) -> None:
        threads.append(threading.get_ident())

    await app.publish("tick", stream="slow")
    await app.worker().run_until_idle()
    assert threads
    assert threads[0] != threading.get_ident()


async def test_a_stream_without_a_dispatcher_waits(app: offpath.App) -> None:
    seen = told(app, "mail")
    event_id = await app.publish("order.paid", stream="billing")
    await app.worker().run_until_idle()
    record = await app.jobs.get(event_id)
    assert (record.state, record.deliveries) == (offpath.JobState.QUEUED, 0)
    assert seen == []
    assert [(one.queue, one.ready) for one in await app.backlog()] == [("outbox", 1)]


async def test_events_are_committed_beside_jobs(app: offpath.App) -> None:
    seen = told(app)

    @app.task
    async def ship(order: int) -> int:
        return order

    holder = await ship.options(unique="order-1").enqueue(1)
    with pytest.raises(offpath.UniqueConflict):
        await app.enqueue([app.event("order.shipped"), ship.options(unique="order-1").job(2)])
    await app.worker().run_until_idle()
    assert seen == [], "the event of a commit that failed"
    await app.enqueue([ship.job(3), app.event("order.shipped")])
    await app.worker().run_until_idle()
    assert [event.topic for event in seen] == ["order.shipped"]
    assert await holder.result(timeout=5) == 1


async def test_a_handlers_event_exists_when_its_success_does(app: offpath.App) -> None:
    seen = told(app)
    published: list[str] = []

    @app.task(retry=offpath.RetryOptions(attempts=2, base=0))
    async def pay(ctx: offpath.Context, order: int) -> None:
        published.append(ctx.publish("order.paid", {"attempt": ctx.attempt}, key=str(order)))
        if ctx.attempt == 1:
            msg = "the provider timed out"
            raise ConnectionError(msg)

    handle = await pay.enqueue(1)
    await app.worker().run_until_idle()
    await handle.result(timeout=5)
    assert len(published) == 2
    assert [(event.id, event.payload) for event in seen] == [(published[1], {"attempt": 2})]


async def test_an_event_does_not_hold_its_publishers_group_open(app: offpath.App) -> None:
    done: list[offpath.JobEvent] = []

    @app.task(on_event=done.append)
    async def pay(ctx: offpath.Context) -> None:
        ctx.publish("order.paid", stream="nobody-relays")

    await pay.enqueue()
    await app.worker().run_until_idle()
    assert [event.kind for event in done][-1] == offpath.EventKind.GROUP_DONE


async def test_undeliverable_is_dead_at_once_and_can_be_redriven(app: offpath.App) -> None:
    broken = True
    seen: list[str] = []

    @app.outbox()
    async def dispatch(event: offpath.Event) -> None:
        if broken:
            msg = "no such endpoint"
            raise offpath.Undeliverable(msg)
        seen.append(event.id)

    event_id = await app.publish("order.paid")
    await app.worker().run_until_idle()
    dead = await app.dead.show(event_id)
    assert (dead.attempt, dead.reason) == (1, offpath.DeadReason.ABORTED)
    broken = False
    await app.dead.redrive(event_id)
    await app.worker().run_until_idle()
    assert seen == [event_id]


async def test_a_failing_dispatcher_is_tried_ten_times_then_dead() -> None:
    clock = ManualClock()
    attempts: list[int] = []
    async with offpath.App("memory://", clock=clock, auto_start=False) as app:

        @app.outbox()
        async def dispatch(event: offpath.Event) -> None:
            attempts.append(event.attempt)
            raise ConnectionError(event.topic)

        event_id = await app.publish("order.paid")
        for _ in range(12):
            await app.worker().run_until_idle()
            clock.advance(3600)
        assert attempts == list(range(1, 11))
        assert (await app.dead.show(event_id)).reason == offpath.DeadReason.EXHAUSTED


async def test_an_event_shares_the_callers_transaction(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    async with offpath.App(url, auto_start=False) as app:
        connection = sqlite3.connect(tmp_path / "events.db")
        await app.publish("order.paid", within=connection)
        connection.rollback()
        kept = await app.publish("order.paid", within=connection)
        connection.commit()
        connection.close()
        assert [job.id async for job in app.jobs.each()] == [kept]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda app: app.event(""),
        lambda app: app.event("a\nb"),
        lambda app: app.event("a", stream=""),
        lambda app: app.event("a", key="x\0"),
        lambda app: app.event("a", headers={"n": 1}),
        lambda app: app.event("a", headers={str(n): "x" for n in range(51)}),
        lambda app: app.event("a", object()),
    ],
)
def test_unusable_parts_are_refused_before_anything_is_written(
    wrong: Callable[[offpath.App], object],
) -> None:
    with pytest.raises(offpath.InvalidArgument):
        wrong(offpath.App())
