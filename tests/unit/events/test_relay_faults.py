"""Relays when the store's answers are lost, and when relays die with events in hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

import offpath
from offpath.errors import RelayFailed, StoreRejected, StoreUnavailable
from offpath.events import Event
from offpath.model.message import Box, LeasedMessages, MessageRequest, StreamRoom
from offpath.retries import RetryPolicy
from offpath.runtime.clock import ManualClock
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


@pytest.mark.parametrize("after", [False, True])
async def test_a_settle_without_an_answer_is_repeated_while_the_lease_holds(
    app: offpath.App, store: UncertainStore, clock: ManualClock, after: bool
) -> None:
    recipient = Recipient()
    app.outbox(dispatcher=recipient)
    event = await app.publish("t", 1)
    store.errors, store.after = [StoreUnavailable("cut")] * 2, after
    passing = asyncio.ensure_future(app.relay().run_once())
    for _ in range(3):
        await ticks(20)
        clock.advance(0.2)
    tally = await within(asyncio.wait_for(passing, PATIENCE))
    assert tally.buckets == {"relayed": (event,)}
    assert (await app.messages.get(event)).state == "done"
    assert recipient.seen == [1]


async def test_ends_that_cannot_be_written_within_the_lease_are_a_failure(
    app: offpath.App, store: UncertainStore, clock: ManualClock
) -> None:
    recipient = Recipient()
    app.outbox(dispatcher=recipient)
    event = await app.publish("t", 1)
    store.errors = [StoreUnavailable("cut")] * 1_000
    passing = asyncio.ensure_future(app.relay().run_once())
    for _ in range(100):
        await ticks(5)
        clock.advance(2.5)
    with pytest.raises(RelayFailed) as raised:
        await within(asyncio.wait_for(passing, PATIENCE))
    assert raised.value.tally.buckets == {"unrecorded": (event,)}
    store.errors = []
    assert (await app.relay().run_once()).buckets == {"relayed": (event,)}
    assert recipient.seen == [1, 1], "at least once"


async def test_a_settle_that_is_refused_as_a_whole_does_not_hang(
    app: offpath.App, store: UncertainStore
) -> None:
    app.outbox(dispatcher=Recipient())
    event = await app.publish("t", 1)
    store.errors = [StoreRejected("no")]
    with pytest.raises(RelayFailed) as raised:
        await within(app.relay().run_once())
    assert raised.value.tally.buckets == {"unrecorded": (event,)}


async def lose(app: offpath.App, clock: ManualClock) -> None:
    """The same as a process that dies with all in hand."""
    rooms = (StreamRoom(stream="default", limit=100),)
    request = MessageRequest(box=Box.OUT, holder="gone", streams=rooms, limit=100, lease_seconds=10)
    await app.store().lease_messages(request)
    clock.advance(11)


async def test_an_event_that_kills_its_relays_is_dead_and_buries_no_other(
    app: offpath.App, clock: ManualClock
) -> None:
    recipient = Recipient()
    recipient.held = {"killer", 0, 1}
    app.outbox(dispatcher=recipient)
    killer = await app.publish("t", "killer")
    for _ in range(4):
        await lose(app, clock)
    innocent = [await app.publish("t", number) for number in range(2)]
    relay = app.relay()
    passing = asyncio.ensure_future(relay.run_once())
    await ticks(50)
    assert recipient.seen == [0, 1], "a suspect waits until nothing else is in hand"
    recipient.gate.set()
    recipient.held = set()
    tally = await within(asyncio.wait_for(passing, PATIENCE))
    assert tally.buckets == {"relayed": (*innocent, killer)}
    assert recipient.seen == [0, 1, "killer"]


async def test_an_event_that_went_down_with_five_relays_is_a_dead_letter(
    app: offpath.App, clock: ManualClock
) -> None:
    recipient = Recipient()
    app.outbox(dispatcher=recipient)
    killer = await app.publish("t", "killer")
    for _ in range(5):
        await lose(app, clock)
    with pytest.raises(RelayFailed) as raised:
        await within(app.relay().run_once())
    assert raised.value.tally.buckets == {"dead_lettered": (killer,)}
    assert recipient.seen == []
    dead = await app.messages.get(killer)
    assert dead.reason == "worker_lost"
    assert dead.failure is not None


async def test_several_suspects_are_tried_one_after_the_other(
    app: offpath.App, clock: ManualClock
) -> None:
    recipient = Recipient()
    app.outbox(dispatcher=recipient)
    for number in range(3):
        await app.publish("t", number)
    for _ in range(4):
        await lose(app, clock)
    relay = app.relay()
    tallies = [await within(relay.run_once()) for _ in range(3)]
    assert [tally.counts for tally in tallies] == [{"relayed": 1}] * 3
    assert [tally.more for tally in tallies] == [True, True, False]
    assert recipient.seen == [0, 1, 2]


@pytest.mark.parametrize(
    "error",
    [offpath.Snooze(-1.0), offpath.Snooze(until=datetime(2026, 1, 1))],  # noqa: DTZ001
    ids=repr,
)
async def test_a_snooze_that_names_no_time_counts_and_waits_as_the_policy_says(
    app: offpath.App, error: Exception
) -> None:
    recipient = Recipient()
    recipient.failing[1] = [error]
    app.outbox(dispatcher=recipient)
    event = await app.publish("t", 1)
    with pytest.raises(RelayFailed):
        await within(app.relay().run_once())
    record = await app.messages.get(event)
    assert (record.attempt, record.deliveries) == (2, 1), "else it would come again for ever"
    assert (await app.relay().run_once()).total == 0


class Stubborn:
    """A dispatcher that swallows its first cancellation and hangs at what follows."""

    def __init__(self) -> None:
        self.ended: list[object] = []

    async def dispatch(self, event: Event) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append(event.payload)
            if event.payload == 0:
                return
            raise


async def test_a_swallowed_cancellation_leaves_the_next_event_its_time_limit(
    app: offpath.App, clock: ManualClock
) -> None:
    dispatcher = Stubborn()
    app.outbox(dispatcher=dispatcher, timeout=10, concurrency=1)
    ids = [await app.publish("t", number) for number in range(2)]
    passing = asyncio.ensure_future(app.relay().run_once())
    for _ in range(2):
        await ticks(20)
        clock.advance(10.0)
    tally = await within(asyncio.wait_for(passing, PATIENCE))
    assert dispatcher.ended == [0, 1]
    assert tally.buckets == {"relayed": (ids[0],), "failed": (ids[1],)}


async def test_a_plain_function_that_gives_a_coroutine_has_it_awaited(app: offpath.App) -> None:
    recipient = Recipient()
    recipient.failing[1] = [ConnectionError("away")]
    app.outbox(dispatcher=lambda event: recipient(event))  # noqa: PLW0108 - not seen to be async
    await app.publish("t", 1)
    with pytest.raises(RelayFailed) as raised:
        await within(app.relay().run_once())
    assert raised.value.tally.counts == {"failed": 1}
    assert recipient.seen == [1]


async def test_what_a_cancelled_pass_was_handed_is_given_back_at_once(
    app: offpath.App, store: UncertainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipient = Recipient()
    app.outbox(dispatcher=recipient)
    event = await app.publish("t", 1)
    lease, leased, may_answer = store.lease_messages, asyncio.Event(), asyncio.Event()

    async def slow(request: MessageRequest) -> LeasedMessages:
        answer = await lease(request)
        leased.set()
        await may_answer.wait()
        return answer

    monkeypatch.setattr(store, "lease_messages", slow)
    passing = asyncio.ensure_future(app.relay().run_once())
    await within(leased.wait())
    passing.cancel()
    may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(passing, PATIENCE)
    record = await app.messages.get(event)
    assert (record.state, recipient.seen) == ("pending", []), "it waits for somebody else"
    monkeypatch.setattr(store, "lease_messages", lease)
    assert (await within(app.relay().run_once())).buckets == {"relayed": (event,)}


@pytest.mark.parametrize("readable", [True, False])
async def test_an_end_whose_answer_was_lost_is_told_as_it_was_written(
    app: offpath.App,
    store: UncertainStore,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    readable: bool,
) -> None:
    """The repeat finds no lease, for the first one has let it go: that is not `lost`, also where
    the record that would tell it cannot be read.
    """
    recipient = Recipient()
    recipient.failing[1] = [ConnectionError("down")]
    app.outbox(dispatcher=recipient)
    event = await app.publish("t", 1)
    store.errors, store.after = [StoreUnavailable("cut")], True

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("cut")

    with monkeypatch.context() as patch:
        if not readable:
            patch.setattr(store, "find_messages", away)
        passing = asyncio.ensure_future(app.relay().run_once())
        await ticks(20)
        clock.advance(0.2)
        with pytest.raises(RelayFailed) as raised:
            await within(asyncio.wait_for(passing, PATIENCE))
    assert store.settles == [1, 1]
    assert raised.value.tally.buckets == {"failed": (event,)}
    assert (await app.messages.get(event)).attempt == 2, "it was written once"


async def test_how_long_an_event_waits_is_by_its_attempts_and_not_by_its_deliveries(
    app: offpath.App, clock: ManualClock
) -> None:
    """A relay that died with it in hand is not a failure of whom it is for."""
    recipient = Recipient()
    recipient.failing[1] = [ConnectionError("down")]
    exact = RetryPolicy(attempts=5, base=10.0, factor=4.0, cap=1_000.0, jitter=0.0)
    app.outbox(dispatcher=recipient, retry=exact)
    event = await app.publish("t", 1)
    for _ in range(2):
        await lose(app, clock)
    failed_at = clock.now()
    with pytest.raises(RelayFailed):
        await within(app.relay().run_once())
    record = await app.messages.get(event)
    assert (record.attempt, record.deliveries) == (2, 3)
    assert record.due_at - failed_at == timedelta(seconds=10)
