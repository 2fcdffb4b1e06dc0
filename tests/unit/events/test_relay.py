"""Relays: each event in its own error boundary, and a pass that says how it went."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import offpath
from offpath.errors import RelayFailed
from offpath.events import Event, Undeliverable
from offpath.events.relay import lease_for
from offpath.runtime.clock import ManualClock
from offpath.sweeps import Verdict
from tests.unit.events.recipient import PATIENCE, Recipient, UncertainStore, ticks, within


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> UncertainStore:
    return UncertainStore(clock)


@pytest.fixture
async def app(store: UncertainStore, clock: ManualClock) -> AsyncIterator[offpath.App]:
    async with offpath.App(store=store, clock=clock, auto_start=False) as app:
        yield app


async def test_in_an_ordered_stream_a_failing_event_holds_back_its_key_only(
    app: offpath.App, clock: ManualClock
) -> None:
    recipient = Recipient()
    recipient.failing["A"] = [ConnectionError("1"), ConnectionError("2")]
    app.outbox("wallet", dispatcher=recipient, ordered=True)
    ids = [await app.publish("t", name, key="k", stream="wallet") for name in "ABC"]
    await app.publish("t", "other", key="x", stream="wallet")
    await app.publish("t", "free", stream="wallet")
    relay = app.relay("wallet")
    tally = await within(relay.run_once())
    assert tally.counts == {"failed": 1, "relayed": 2}
    assert tally.verdict is Verdict.DEGRADED
    untouched = await app.messages.get(ids[1])
    assert (untouched.attempt, untouched.deliveries) == (1, 0)
    clock.advance(10)
    with pytest.raises(RelayFailed) as failed:
        await within(relay.run_once())
    assert failed.value.tally.counts == {"failed": 1}
    clock.advance(10)
    assert (await within(relay.run_once())).counts == {"relayed": 3}
    assert recipient.seen == ["A", "other", "free", "A", "A", "B", "C"]


async def test_a_dead_event_lets_go_of_its_key(app: offpath.App) -> None:
    recipient = Recipient()
    recipient.failing["A"] = [Undeliverable("never")]
    app.outbox("wallet", dispatcher=recipient, ordered=True)
    for name in "AB":
        await app.publish("t", name, key="k", stream="wallet")
    tally = await within(app.relay("wallet").run_once())
    assert tally.counts == {"dead_lettered": 1, "relayed": 1}
    assert recipient.seen == ["A", "B"]


@pytest.mark.parametrize("bad", [0, 25, 49])
@pytest.mark.parametrize("error", [Undeliverable("gone"), ConnectionError("down")])
async def test_one_bad_event_of_fifty_fails_alone(
    app: offpath.App, bad: int, error: Exception
) -> None:
    recipient = Recipient()
    recipient.failing[bad] = [error]
    app.outbox(dispatcher=recipient)
    ids = [await app.publish("t", number) for number in range(50)]
    tally = await within(app.relay().run_once())
    bucket = "dead_lettered" if isinstance(error, Undeliverable) else "failed"
    assert tally.buckets[bucket] == (ids[bad],)
    assert list(tally.buckets["relayed"]) == ids[:bad] + ids[bad + 1 :]
    record = await app.messages.get(ids[bad])
    assert record.failure is not None
    assert (record.failure.type, record.failure.message) == (type(error).__name__, str(error))
    assert record.payload == str(bad)


async def test_a_pass_in_which_all_failed_raises_after_it_was_written(app: offpath.App) -> None:
    recipient = Recipient()
    recipient.failing = {number: [ConnectionError("down")] for number in range(3)}
    app.outbox(dispatcher=recipient)
    ids = [await app.publish("t", number) for number in range(3)]
    with pytest.raises(RelayFailed, match="all 3 events failed") as raised:
        await within(app.relay().run_once())
    assert raised.value.tally.buckets == {"failed": tuple(ids)}
    assert raised.value.code == "relay_failed"
    assert [(await app.messages.get(one)).attempt for one in ids] == [2, 2, 2]


async def test_a_pass_is_bounded_and_says_that_there_is_more(app: offpath.App) -> None:
    recipient = Recipient()
    app.outbox(dispatcher=recipient)
    for number in range(7):
        await app.publish("t", number)
    relay = app.relay()
    first, second = await relay.run_once(limit=5), await relay.run_once(limit=5)
    assert (first.total, first.more, second.total, second.more) == (5, True, 2, False)
    assert recipient.seen == list(range(7))
    assert (await relay.run_once()).verdict is Verdict.EMPTY


async def test_an_attempt_over_its_limit_is_cancelled_and_fails(
    app: offpath.App, clock: ManualClock
) -> None:
    recipient = Recipient()
    recipient.held = {"slow"}
    app.outbox(dispatcher=recipient, timeout=5)
    slow, quick = await app.publish("t", "slow"), await app.publish("t", "quick")
    passing = asyncio.ensure_future(app.relay().run_once())
    await ticks(20)
    assert (await app.messages.get(quick)).state == "done"
    clock.advance(4.9)
    await ticks(20)
    assert not passing.done()
    clock.advance(0.2)
    tally = await within(asyncio.wait_for(passing, PATIENCE))
    assert tally.buckets == {"relayed": (quick,), "failed": (slow,)}
    failure = (await app.messages.get(slow)).failure
    assert failure is not None
    assert (failure.kind, failure.type) == ("timeout", "TimeLimitExceeded")


async def test_what_could_not_end_within_the_lease_is_given_back_unbegun(
    app: offpath.App, clock: ManualClock
) -> None:
    recipient = Recipient()
    recipient.held = {0, 1, 2}
    app.outbox(dispatcher=recipient, timeout=10, concurrency=1)
    ids = [await app.publish("t", number) for number in range(4)]
    passing = asyncio.ensure_future(app.relay().run_once())
    for _ in range(3):
        await ticks(20)
        clock.advance(9.9)
        recipient.gate.set()
        recipient.gate.clear()
    tally = await within(asyncio.wait_for(passing, PATIENCE))
    assert lease_for(10) == 30
    assert tally.buckets == {"relayed": tuple(ids[:3])}
    assert tally.more
    assert (await app.messages.get(ids[3])).deliveries == 0


async def test_a_dispatcher_that_ends_at_once_costs_no_task_each(app: offpath.App) -> None:
    made: list[asyncio.Task[Any]] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **parts: Any) -> Any:
        task = asyncio.Task(coroutine, loop=loop, **parts)
        made.append(task)
        return task

    recipient = Recipient()
    app.outbox(dispatcher=recipient)
    async with app.batch() as batch:
        for number in range(500):
            batch.publish("t", number)
    asyncio.get_running_loop().set_task_factory(factory)
    tally = await app.relay().run_once(limit=500)
    asyncio.get_running_loop().set_task_factory(None)
    assert tally.counts == {"relayed": 500}
    assert len(made) < 10


async def test_ends_that_come_while_others_are_written_share_a_transaction(
    app: offpath.App, store: UncertainStore
) -> None:
    recipient = Recipient()
    recipient.held = set(range(40))
    app.outbox(dispatcher=recipient)
    for number in range(40):
        await app.publish("t", number)
    passing = asyncio.ensure_future(app.relay().run_once())
    await ticks(100)
    recipient.gate.set()
    await within(asyncio.wait_for(passing, PATIENCE))
    assert sum(store.settles) == 40
    assert len(store.settles) < 5


# -- dispatchers -----------------------------------------------------------------------------------


class Pipeline:
    """A dispatcher of many, with a connection."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.refused: dict[Any, Exception] = {}
        self.life: list[str] = []
        self.short = 0
        self.away = False

    async def open(self) -> None:
        if self.away:
            msg = "the broker is away"
            raise ConnectionError(msg)
        self.life.append("open")

    async def close(self) -> None:
        self.life.append("close")

    async def dispatch_many(self, events: Sequence[Event]) -> Sequence[Exception | None]:
        self.calls.append([event.payload for event in events])
        return [self.refused.get(event.payload) for event in events][self.short :]


async def test_a_dispatcher_of_many_says_of_each_how_it_went(app: offpath.App) -> None:
    pipeline = Pipeline()
    pipeline.refused = {1: ConnectionError("nack"), 2: Undeliverable("too large")}
    app.outbox(dispatcher=pipeline)
    ids = [await app.publish("t", number) for number in range(4)]
    relay = app.relay()
    tally = await within(relay.run_once())
    assert tally.buckets == {
        "relayed": (ids[0], ids[3]),
        "failed": (ids[1],),
        "dead_lettered": (ids[2],),
    }
    assert pipeline.calls == [[0, 1, 2, 3]]
    await relay.stop()
    assert pipeline.life == ["open", "close"]


async def test_a_dispatcher_of_many_gets_a_key_of_an_ordered_stream_one_by_one(
    app: offpath.App,
) -> None:
    pipeline = Pipeline()
    pipeline.refused = {"b2": ConnectionError("nack")}
    app.outbox(dispatcher=pipeline, ordered=True)
    for name in ("a1", "a2", "b1", "b2", "b3"):
        await app.publish("t", name, key=name[0])
    tally = await within(app.relay().run_once())
    assert pipeline.calls == [["a1", "b1"], ["a2", "b2"]]
    assert tally.counts == {"relayed": 3, "failed": 1}


async def test_a_dispatcher_of_many_that_answers_for_too_few_fails_all(app: offpath.App) -> None:
    pipeline = Pipeline()
    pipeline.short = 1
    app.outbox(dispatcher=pipeline)
    ids = [await app.publish("t", number) for number in range(3)]
    with pytest.raises(RelayFailed):
        await within(app.relay().run_once())
    failure = (await app.messages.get(ids[0])).failure
    assert failure is not None
    assert failure.message == "dispatch_many returned 2 answers for 3 events"


async def test_a_broker_that_is_away_costs_no_attempt(app: offpath.App) -> None:
    pipeline = Pipeline()
    pipeline.away = True
    app.outbox(dispatcher=pipeline)
    event = await app.publish("t", 1)
    relay = app.relay()
    with pytest.raises(ConnectionError):
        await within(relay.run_once())
    record = await app.messages.get(event)
    assert (record.attempt, record.deliveries) == (1, 0)
    pipeline.away = False
    assert (await within(relay.run_once())).counts == {"relayed": 1}


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
async def test_whatever_a_dispatcher_raises_fails_its_event_only(
    app: offpath.App, error: BaseException
) -> None:
    @app.outbox()
    async def dispatch(event: Event) -> None:
        if event.payload == 0:
            raise error

    for number in range(2):
        await app.publish("t", number)
    assert (await within(app.relay().run_once())).counts == {"failed": 1, "relayed": 1}


async def test_a_snooze_says_when_to_try_again(app: offpath.App, clock: ManualClock) -> None:
    recipient = Recipient()
    recipient.failing["later"] = [offpath.Snooze(500)]
    app.outbox(dispatcher=recipient)
    event = await app.publish("t", "later")
    tally = await within(app.relay().run_once())
    assert tally.buckets == {"snoozed": (event,)}
    record = await app.messages.get(event)
    assert (record.due_at - clock.now()).total_seconds() == 500


# -- in a worker -----------------------------------------------------------------------------------


async def test_a_stop_lets_what_was_begun_end_and_gives_the_rest_back(
    app: offpath.App,
) -> None:
    recipient = Recipient()
    recipient.held = {0}
    app.outbox(dispatcher=recipient, concurrency=1)
    ids = [await app.publish("t", number) for number in range(3)]
    relay = app.relay()
    await within(relay.step())
    stopping = asyncio.ensure_future(relay.stop(10))
    await ticks(20)
    assert not stopping.done()
    recipient.gate.set()
    await within(asyncio.wait_for(stopping, PATIENCE))
    states = [await app.messages.get(one) for one in ids]
    assert [(one.state, one.deliveries) for one in states] == [
        ("done", 1),
        ("pending", 0),
        ("pending", 0),
    ]


async def test_a_stop_without_patience_gives_everything_back(app: offpath.App) -> None:
    recipient = Recipient()
    recipient.held = {0, 1}
    app.outbox(dispatcher=recipient)
    ids = [await app.publish("t", number) for number in range(2)]
    relay = app.relay()
    await within(relay.step())
    assert recipient.seen == [0, 1]
    await within(relay.stop(0))
    records = [await app.messages.get(one) for one in ids]
    assert [(one.state, one.attempt, one.deliveries, one.held) for one in records] == [
        ("pending", 1, 0, False)
    ] * 2


async def test_a_turn_tells_what_has_ended(app: offpath.App, clock: ManualClock) -> None:
    recipient = Recipient()
    recipient.held = {"slow"}
    recipient.failing = {"bad": [ConnectionError("1"), ConnectionError("2")]}
    app.outbox(dispatcher=recipient)
    relay = app.relay()
    assert (await within(relay.step())).verdict is Verdict.EMPTY
    await app.publish("t", "good")
    await app.publish("t", "bad")
    turn = await within(relay.step())
    assert (turn.verdict, turn.counts) == (
        Verdict.DEGRADED,
        {"relayed": 1, "failed": 1},
    )
    assert turn.cause == "1 of 2 messages failed"
    clock.advance(5)
    turn = await within(relay.step())
    assert (turn.verdict, turn.counts) == (Verdict.FAILED, {"failed": 1})
    await app.publish("t", "slow")
    turn = await within(relay.step())
    assert (turn.verdict, turn.counts) == (Verdict.CLEAN, {}), "busy is not a failure"
    recipient.gate.set()
    await ticks(20)
    turn = await within(relay.step())
    assert turn.counts == {"relayed": 1}


async def test_a_slow_event_does_not_hold_back_those_that_come_later(app: offpath.App) -> None:
    recipient = Recipient()
    recipient.held = {"slow"}
    app.outbox(dispatcher=recipient)
    relay = app.relay()
    await app.publish("t", "slow")
    await within(relay.step())
    for number in range(3):
        await app.publish("t", number)
    turn = await within(relay.step())
    assert turn.counts == {"relayed": 3}
    recipient.gate.set()
    await within(relay.stop(1))


async def test_a_worker_relays_and_wakes_up_for_what_is_published() -> None:
    arrived = asyncio.Event()
    app = offpath.App("memory://", auto_start=False)

    @app.outbox("mail")
    async def dispatch(event: Event) -> None:
        arrived.set()

    async with app, app.worker() as worker:
        await app.publish("hello", stream="mail")
        await asyncio.wait_for(arrived.wait(), PATIENCE)
        assert "relay:mail" in [loop.name for loop in worker.loops()]
        late = asyncio.Event()

        @app.outbox("late")
        async def dispatch_late(event: Event) -> None:
            late.set()

        await app.publish("hello", stream="late")
        await asyncio.wait_for(late.wait(), PATIENCE)


async def test_a_worker_without_relays_leaves_messages_alone() -> None:
    seen = Recipient()
    async with offpath.App("memory://", auto_start=False) as app:
        app.outbox(dispatcher=seen)
        await app.publish("t")
        worker = app.worker(relays=False)
        await worker.run_until_idle()
        assert seen.seen == []
        async with app.worker(relays=False) as worker:
            assert not [loop for loop in worker.loops() if loop.name.startswith("relay:")]
