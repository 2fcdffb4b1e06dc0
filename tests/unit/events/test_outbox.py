"""Events: committed with what makes them true, relayed at least once, dead when they cannot be."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

import offpath
from offpath.events import Event, Undeliverable
from offpath.records import EventKind
from offpath.runtime.clock import ManualClock
from offpath.sweeps import Verdict
from tests.servers import migrate
from tests.sqlite_files import migrated_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("database_from_template")("schema", migrate))
    return "memory://" if request.param == "memory" else migrated_url(tmp_path / "events.db")


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    async with offpath.App(url, auto_start=False, migrate=True) as app:
        yield app


def told(app: offpath.App, stream: str = "default") -> list[Event]:
    """The events of a stream, as its dispatcher gets them."""
    seen: list[Event] = []

    @app.outbox(stream)
    async def dispatch(event: Event) -> None:
        seen.append(event)

    return seen


async def test_an_event_is_relayed_whole(app: offpath.App) -> None:
    seen = told(app)
    event_id = await app.publish(
        "order.paid", {"order": 7}, key="order-7", headers={"trace": "abc"}
    )
    await app.worker().run_until_idle()
    (event,) = seen
    assert event == Event(
        id=event_id,
        stream="default",
        topic="order.paid",
        payload={"order": 7},
        key="order-7",
        headers={"trace": "abc"},
        attempt=1,
        created_at=(await app.messages.get(event_id)).created_at,
        body='{"order":7}',
    )
    assert "7}" not in repr(event), "a payload must not come into a log by accident"


async def test_a_sync_dispatcher_runs_in_a_thread(app: offpath.App) -> None:
    threads: list[int] = []

    @app.outbox("slow")
    def dispatch(event: Event) -> None:
        threads.append(threading.get_ident())

    await app.publish("tick", stream="slow")
    await app.worker().run_until_idle()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_a_stream_without_a_dispatcher_waits(app: offpath.App) -> None:
    seen = told(app, "mail")
    event_id = await app.publish("order.paid", stream="billing")
    await app.worker().run_until_idle()
    tally = await app.relay("billing").run_once()
    assert (tally.total, tally.verdict) == (0, Verdict.EMPTY)
    assert tally.skipped == "the stream 'billing' has no dispatcher"
    record = await app.messages.get(event_id)
    assert (record.state, record.deliveries, record.attempt) == ("pending", 0, 1)
    assert seen == []
    assert [(one.stream, one.due) for one in await app.message_backlog()] == [("billing", 1)]


async def test_a_relay_uses_a_dispatcher_that_came_after_its_first_pass(app: offpath.App) -> None:
    event_id = await app.publish("order.paid", stream="billing")
    relay = app.relay("billing")
    assert (await relay.run_once()).skipped is not None
    seen = told(app, "billing")
    tally = await relay.run_once()
    assert (tally.skipped, tally.buckets) == (None, {"relayed": (event_id,)})
    assert len(seen) == 1


async def test_a_batch_is_one_commit_and_a_value_until_then(app: offpath.App) -> None:
    seen = told(app)

    @app.task
    async def ship(order: int) -> int:
        return order

    async with app.batch() as batch:
        batch.enqueue(ship.job(1))
        batch.enqueue([ship.job(2), ship.job(3)])
        event_id = batch.publish("order.shipped", key="1")
        batch.append("shop", "order.shipped", "orders", {"order": 1})
        assert await app.jobs.count() == 0
        assert (await app.messages.find()).items == ()
        with pytest.raises(offpath.InvalidArgument):
            _ = batch.handles
    await app.worker().run_until_idle()
    assert [await handle.result(timeout=5) for handle in batch.handles] == [1, 2, 3]
    assert [event.id for event in seen] == [event_id]
    assert [event.type for event in await app.store().read_events()] == ["order.shipped"]
    with pytest.raises(offpath.InvalidArgument):
        batch.publish("too late")


async def test_a_batch_that_fails_leaves_nothing(app: offpath.App) -> None:
    @app.task
    async def ship(order: int) -> int:
        return order

    await ship.options(unique="order-1").enqueue(1)
    with pytest.raises(offpath.UniqueConflict):
        async with app.batch() as batch:
            batch.publish("order.shipped")
            batch.enqueue(ship.options(unique="order-1").job(2))
    with pytest.raises(ZeroDivisionError):
        async with app.batch() as batch:
            batch.publish("order.shipped")
            batch.append("shop", "order.shipped", "orders")
            _ = 1 / 0
    assert (await app.messages.find()).items == ()
    assert await app.store().read_events() == []
    assert await app.jobs.count() == 1


async def test_a_handlers_event_exists_when_its_success_does(app: offpath.App) -> None:
    seen = told(app)
    published: list[str] = []

    @app.task(retry=offpath.RetryOptions(attempts=2, base=0))
    async def pay(ctx: offpath.Context, order: int) -> None:
        published.append(ctx.publish("order.paid", {"attempt": ctx.attempt}, key=str(order)))
        ctx.append("shop", "order.paid", "orders", {"attempt": ctx.attempt})
        if ctx.attempt == 1:
            msg = "the provider timed out"
            raise ConnectionError(msg)

    handle = await pay.enqueue(1)
    await app.worker().run_until_idle()
    await handle.result(timeout=5)
    assert len(published) == 2
    assert [(event.id, event.payload) for event in seen] == [(published[1], {"attempt": 2})]
    assert [event.payload for event in await app.store().read_events()] == ['{"attempt":2}']


async def test_an_event_does_not_hold_its_publishers_group_open(app: offpath.App) -> None:
    done: list[offpath.JobEvent] = []

    @app.task(on_event=done.append)
    async def pay(ctx: offpath.Context) -> None:
        ctx.publish("order.paid", stream="nobody-relays")

    await pay.enqueue()
    await app.worker().run_until_idle()
    assert [event.kind for event in done][-1] == EventKind.GROUP_DONE


async def test_undeliverable_is_dead_at_once_and_can_be_revived(app: offpath.App) -> None:
    broken = True
    seen: list[str] = []

    @app.outbox()
    async def dispatch(event: Event) -> None:
        if broken:
            msg = "no such endpoint"
            raise Undeliverable(msg)
        seen.append(event.id)

    event_id = await app.publish("order.paid")
    await app.worker().run_until_idle()
    dead = await app.messages.get(event_id)
    assert (dead.state, dead.attempt, dead.reason) == ("dead", 1, "undeliverable")
    assert dead.failure is not None
    assert dead.failure.message == "no such endpoint"
    broken = False
    assert await app.messages.redrive(event_id) == [event_id]
    await app.worker().run_until_idle()
    assert seen == [event_id]


async def test_ids_of_the_other_box_are_left(app: offpath.App) -> None:
    @app.outbox()
    async def dispatch(event: Event) -> None:
        raise Undeliverable(event.topic)

    event_id = await app.publish("order.paid")
    await app.worker().run_until_idle()
    assert await app.messages.redrive(event_id, "no-id", box="in") == []
    assert await app.messages.discard(event_id, box="in") == []
    with pytest.raises(offpath.InvalidArgument, match="ids or a filter"):
        await app.messages.discard(event_id, box="out", streams=["default"])
    assert await app.messages.discard(event_id, "no-id", box="out") == [event_id]


async def test_a_failing_dispatcher_is_tried_ten_times_then_dead() -> None:
    clock = ManualClock()
    attempts: list[int] = []
    async with offpath.App("memory://", clock=clock, auto_start=False) as app:

        @app.outbox()
        async def dispatch(event: Event) -> None:
            attempts.append(event.attempt)
            raise ConnectionError(event.topic)

        event_id = await app.publish("order.paid")
        for _ in range(12):
            await app.worker().run_until_idle()
            clock.advance(3600)
        assert attempts == list(range(1, 11))
        dead = await app.messages.get(event_id)
        assert (dead.reason, dead.expires_at) == ("exhausted", None)


async def test_delivered_events_are_kept_a_day_and_can_be_replayed() -> None:
    clock = ManualClock()
    async with offpath.App("memory://", clock=clock, auto_start=False) as app:
        seen = told(app)
        ids = [await app.publish("tick", n) for n in range(3)]
        await app.worker().run_until_idle()
        clock.advance(3600)
        since = clock.now()
        ids += [await app.publish("tick", n) for n in range(3, 5)]
        await app.worker().run_until_idle()
        assert await app.messages.replay(since=since) == ids[3:]
        await app.worker().run_until_idle()
        assert [event.id for event in seen] == [*ids, *ids[3:]]
        clock.advance(86_400 - 3600)
        await app.store().prune(limit=100)
        kept = (await app.messages.find(newest=False)).items
        assert [record.id for record in kept] == ids[3:]


async def test_an_event_shares_the_callers_transaction(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    async with offpath.App(url, auto_start=False) as app:
        with closing(sqlite3.connect(tmp_path / "events.db")) as connection:
            await app.publish("order.paid", within=connection)
            await app.log.append("shop", "order.paid", "orders", within=connection)
            connection.rollback()
            kept = await app.publish("order.paid", within=connection)
            connection.commit()
            async with app.batch(within=connection) as batch:
                batch.publish("order.shipped")
            connection.rollback()
        assert [record.id for record in (await app.messages.find()).items] == [kept]
        assert await app.store().read_events() == []


def test_events_in_a_blocking_transaction_need_no_event_loop(tmp_path: Path) -> None:
    app = offpath.App(f"sqlite:///{tmp_path / 'events.db'}", auto_start=False)

    @app.task
    def ship(order: int) -> int:
        return order

    with app.blocking:
        with closing(sqlite3.connect(tmp_path / "events.db")) as connection:
            app.blocking.publish("gone", within=connection)
            connection.rollback()
            with app.blocking.batch(within=connection) as batch:
                batch.enqueue(ship.job(1))
                paid = batch.publish("order.paid")
            app.blocking.append("shop", "order.paid", "orders", within=connection)
            accepted = app.blocking.accept("stripe", "evt_1", within=connection)
            connection.commit()
        again = app.blocking.accept("stripe", "evt_1")
        assert (accepted.new, again.new, again.id) == (True, False, accepted.id)
        job = app.blocking.jobs.get(batch.handles[0].id)
        assert job.state is offpath.JobState.QUEUED
        found = app.blocking.run(lambda: app.messages.find(newest=False))
        assert [record.id for record in found.items] == [paid, accepted.id]


Wrong = Callable[[offpath.App], Awaitable[object]]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda app: app.publish(""),
        lambda app: app.publish("a\nb"),
        lambda app: app.publish("a", stream=""),
        lambda app: app.publish("a", key="x\0"),
        lambda app: app.publish("a", headers={"n": 1}),
        lambda app: app.publish("a", headers={str(n): "x" for n in range(51)}),
        lambda app: app.publish("a", object()),
        lambda app: app.publish("a", "x" * 2**20),
        lambda app: app.accept("stripe", ""),
        lambda app: app.log.append("", "a", "b"),
    ],
)
async def test_unusable_parts_are_refused_before_anything_is_written(wrong: Wrong) -> None:
    async with offpath.App(auto_start=False) as app:
        with pytest.raises(offpath.InvalidArgument):
            await wrong(app)
        assert (await app.messages.find()).items == ()


def test_a_stream_has_one_dispatcher_and_it_must_be_one() -> None:
    app = offpath.App()
    told(app)
    with pytest.raises(offpath.InvalidArgument, match="has a dispatcher already"):
        told(app)
    with pytest.raises(offpath.InvalidArgument, match="not int"):
        app.outbox("wallet", dispatcher=7)  # type: ignore[call-overload]
    with pytest.raises(offpath.InvalidArgument):
        app.outbox("wallet", dispatcher=print, timeout=0)
