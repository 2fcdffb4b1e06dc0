"""The inbox: accepted once by key, applied once with its effects, a no is a no."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import offpath
from offpath.errors import DrainFailed, InvalidArgument, TaskError
from offpath.events import Duplicate, Event, InboxContext, InboxMessage, Rejected
from offpath.runtime.clock import ManualClock
from tests.servers import migrate
from tests.sqlite_files import migrated_url


class Charge(msgspec.Struct):
    """A payload with a type."""

    amount: int


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("database_from_template")("schema", migrate))
    return "memory://" if request.param == "memory" else migrated_url(tmp_path / "events.db")


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    async with offpath.App(url, auto_start=False, migrate=True) as app:
        yield app


async def test_a_message_is_accepted_once_per_source_and_key(app: offpath.App) -> None:
    first = await app.accept("stripe", "evt_1", {"amount": 5}, headers={"x": "y"})
    again = await app.accept("stripe", "evt_1", {"amount": 6})
    other = await app.accept("adyen", "evt_1", {"amount": 7})
    assert (first.new, again.new, other.new) == (True, False, True)
    assert again.id == first.id != other.id
    seen: list[InboxMessage] = []

    @app.inbox("stripe")
    async def apply(message: InboxMessage) -> None:
        seen.append(message)

    assert (await app.drain("stripe").run_once()).buckets == {"applied": (first.id,)}
    (message,) = seen
    assert message == InboxMessage(
        id=first.id,
        source="stripe",
        key="evt_1",
        payload={"amount": 5},
        headers={"x": "y"},
        attempt=1,
        received_at=(await app.messages.get(first.id)).created_at,
        body='{"amount":5}',
    )
    assert "5}" not in repr(message)
    late = await app.accept("stripe", "evt_1", {"amount": 5})
    assert (late.id, late.new) == (first.id, False), "also after it was applied"
    assert (await app.drain("stripe").run_once()).total == 0


async def test_a_source_without_a_handler_waits(app: offpath.App) -> None:
    accepted = await app.accept("stripe", "evt_1")
    tally = await app.drain("stripe").run_once()
    assert (tally.total, tally.skipped) == (0, "the source 'stripe' has no handler")
    record = await app.messages.get(accepted.id)
    assert (record.state, record.deliveries) == ("pending", 0)


async def test_a_drain_uses_a_handler_that_came_after_its_first_pass(app: offpath.App) -> None:
    accepted = await app.accept("stripe", "evt_1")
    drain = app.drain("stripe")
    assert (await drain.run_once()).skipped is not None

    @app.inbox("stripe")
    async def apply(context: InboxContext, message: InboxMessage) -> None:
        """Accept all."""

    tally = await drain.run_once()
    assert (tally.skipped, tally.buckets) == (None, {"applied": (accepted.id,)})


async def test_what_a_handler_asks_for_commits_with_the_mark(app: offpath.App) -> None:
    ran: list[int] = []

    @app.task
    async def ship(order: int) -> None:
        ran.append(order)

    @app.inbox("stripe")
    async def apply(context: InboxContext, message: InboxMessage) -> None:
        context.enqueue(ship.job(message.payload))
        context.enqueue([ship.job(10 + message.payload)])
        context.publish("charge.applied", key=message.key, stream="later")
        context.append("shop", "charge", "charges", {"attempt": context.attempt})
        if message.attempt == 1:
            msg = "the first attempt fails"
            raise ConnectionError(msg)

    accepted = await app.accept("stripe", "evt_1", 7)
    with pytest.raises(DrainFailed, match="all 1 messages failed"):
        await app.drain("stripe").run_once()
    assert await app.jobs.count() == 0
    assert await app.store().read_events() == []
    await app.messages.redrive(accepted.id)  # it is not dead: nothing happens
    record = await app.messages.get(accepted.id)
    assert (record.attempt, record.state) == (2, "pending")


async def test_effects_are_made_once_with_the_retry_that_succeeds() -> None:
    clock = ManualClock()
    async with offpath.App("memory://", clock=clock, auto_start=False) as app:
        ran: list[int] = []
        contexts: list[InboxContext] = []

        @app.task
        async def ship(order: int) -> None:
            ran.append(order)

        @app.inbox("stripe")
        def apply(message: InboxMessage, context: InboxContext) -> None:
            contexts.append(context)
            context.enqueue(ship.job(message.payload))
            context.publish("charge.applied", stream="later")
            context.append("shop", "charge", "charges", {"attempt": context.attempt})
            if message.attempt == 1:
                raise ConnectionError

        await app.accept("stripe", "evt_1", 7)
        await app.worker().run_until_idle()
        clock.advance(10)
        await app.worker().run_until_idle()
        assert ran == [7]
        assert [event.payload for event in await app.store().read_events()] == ['{"attempt":2}']
        events = (await app.messages.find(box="out")).items
        assert [event.topic for event in events] == ["charge.applied"]
        with pytest.raises(offpath.InvalidArgument, match="has ended"):
            contexts[0].publish("too late")


async def test_a_sync_handler_runs_in_a_thread_and_gets_a_checked_payload(
    app: offpath.App,
) -> None:
    seen: list[tuple[Charge, int]] = []

    @app.inbox("stripe")
    def apply(charge: Charge) -> None:
        seen.append((charge, threading.get_ident()))

    await app.accept("stripe", "evt_1", {"amount": 5})
    bad = await app.accept("stripe", "evt_2", {"amount": "five"})
    tally = await app.drain("stripe").run_once()
    assert tally.buckets["dead_lettered"] == (bad.id,)
    assert [charge for charge, _ in seen] == [Charge(amount=5)]
    assert seen[0][1] != threading.get_ident()
    dead = await app.messages.get(bad.id)
    assert dead.reason == "bad_input"
    assert dead.failure is not None
    assert "$.amount" in dead.failure.message


@pytest.mark.parametrize("body", [b'{"order": 1}', bytearray(b'{"order": 1}'), '{"order": 1}'])
async def test_a_body_that_was_not_decoded_is_refused_before_anything_is_written(
    app: offpath.App, body: str | bytes
) -> None:
    """It would be stored as a text, and be dead when it is applied."""

    @app.inbox("typed")
    async def take(order: dict[str, int]) -> None:
        del order

    @app.inbox("texts")
    async def keep(text: str) -> None:
        del text

    with pytest.raises(InvalidArgument, match=r"json\.loads\(body\)"):
        await app.accept("typed", "1", body)
    assert (await app.accept("texts", "1", "a text")).new
    assert (await app.accept("elsewhere", "1", body)).new
    kept = (await app.messages.find()).items
    assert sorted(message.stream for message in kept) == ["elsewhere", "texts"]


async def test_a_rejected_message_is_dead_and_redriven_only_by_name(app: offpath.App) -> None:
    refusing = True

    @app.inbox("stripe")
    async def apply(message: InboxMessage) -> Duplicate:
        if refusing and message.payload == "no":
            msg = "insufficient funds"
            raise Rejected(msg)
        if refusing:
            msg = "broken"
            raise offpath.Abort(msg)
        return Duplicate()

    no = await app.accept("stripe", "evt_1", "no")
    broken = await app.accept("stripe", "evt_2", "x")
    with pytest.raises(DrainFailed) as raised:
        await app.drain("stripe").run_once()
    assert raised.value.tally.buckets == {"dead_lettered": (no.id, broken.id)}
    reasons = [(await app.messages.get(one.id)).reason for one in (no, broken)]
    assert reasons == ["rejected", "aborted"]
    refusing = False
    assert await app.messages.redrive(streams=["stripe"]) == [broken.id]
    assert await app.messages.redrive(everything=True) == []
    assert await app.messages.redrive(streams=["stripe"], reasons=["rejected"]) == [no.id]
    tally = await app.drain("stripe").run_once()
    assert tally.buckets == {"applied": (broken.id, no.id)}


async def test_a_handler_that_always_fails_ends_after_its_attempts() -> None:
    clock = ManualClock()
    async with offpath.App("memory://", clock=clock, auto_start=False) as app:
        attempts: list[int] = []

        @app.inbox("stripe", attempts=3)
        async def apply(message: InboxMessage) -> None:
            attempts.append(message.attempt)
            raise ConnectionError

        accepted = await app.accept("stripe", "evt_1")
        for _ in range(5):
            await app.worker().run_until_idle()
            clock.advance(3600)
        assert attempts == [1, 2, 3]
        assert (await app.messages.get(accepted.id)).reason == "exhausted"


async def test_effects_that_cannot_be_stored_make_a_dead_letter(app: offpath.App) -> None:
    @app.task
    async def ship(order: int) -> None: ...

    holder = ship.options(unique=offpath.Unique(key="k", policy="refuse"))
    await holder.enqueue(1)

    @app.inbox("stripe")
    async def apply(message: InboxMessage, context: InboxContext) -> None:
        if message.payload == "bad":
            context.enqueue(holder.job(2))

    good = await app.accept("stripe", "evt_1", "good")
    bad = await app.accept("stripe", "evt_2", "bad")
    tally = await app.drain("stripe").run_once()
    assert tally.buckets == {"applied": (good.id,), "dead_lettered": (bad.id,)}
    dead = await app.messages.get(bad.id)
    assert dead.reason == "unsettleable"
    assert dead.failure is not None
    assert dead.failure.type == "UniqueConflict"


async def test_jobs_of_a_message_run_before_a_drain_of_a_test_ends(app: offpath.App) -> None:
    ran: list[str] = []

    @app.task
    async def ship(ctx: offpath.Context, order: str) -> None:
        ran.append(order)
        ctx.publish("shipped", order)

    @app.outbox()
    async def dispatch(event: Event) -> None:
        ran.append(event.topic)

    @app.inbox("stripe")
    async def apply(message: InboxMessage, context: InboxContext) -> None:
        context.enqueue(ship.job(message.payload))

    await app.accept("stripe", "evt_1", "A-1")
    await app.worker().run_until_idle()
    assert ran == ["A-1", "shipped"]


def test_a_handler_must_be_able_to_take_the_message() -> None:
    app = offpath.App()
    with pytest.raises(TaskError, match="no parameter for the message"):
        app.inbox("stripe")(lambda: None)
    with pytest.raises(TaskError, match="positional"):

        @app.inbox("stripe")
        def keyword_only(*, message: InboxMessage) -> None: ...

    app.inbox("stripe")(lambda message: None)
    with pytest.raises(offpath.InvalidArgument, match="has a handler already"):
        app.inbox("stripe")(lambda message: None)


async def test_a_plain_handler_that_gives_a_coroutine_has_it_awaited(app: offpath.App) -> None:
    seen: list[object] = []

    async def applied(message: InboxMessage) -> None:
        seen.append(message.payload)

    app.inbox("stripe")(lambda message: applied(message))  # noqa: PLW0108 - not seen to be async
    await app.accept("stripe", "evt_1", 7)
    assert (await app.drain("stripe").run_once()).counts == {"applied": 1}
    assert seen == [7]
