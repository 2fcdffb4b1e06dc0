"""J2: one bad row of fifty, first, middle or last, on every backend: 49 done, one dead, kept whole.

The relay, the drain of the inbox and the router are tried alike, each with three streams at once:
in one the first row is bad, in one the middle one, in one the last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import offpath
from offpath.events import (
    Event,
    InboxContext,
    InboxMessage,
    MessageState,
    Rejected,
    RoutedEvent,
    Undeliverable,
)
from offpath.model.route import AttemptStatus
from tests.servers import migrate
from tests.sqlite_files import migrated_url

BAD = {"first": 0, "middle": 25, "last": 49}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[offpath.App]:
    if request.param == "postgres":
        url = str(request.getfixturevalue("database_from_template")("schema", migrate))
    else:
        url = "memory://" if request.param == "memory" else migrated_url(tmp_path / "events.db")
    async with offpath.App(url, auto_start=False, migrate=True) as made:
        yield made


async def _one_is_dead(app: offpath.App, stream: str, reason: str) -> None:
    """49 done in one delivery each, and one dead with what it held and why it failed."""
    page = await app.messages.find(streams=[stream], newest=False)
    states = [one.state for one in page.items]
    assert states.count(MessageState.DONE) == 49
    (dead,) = [one for one in page.items if one.state is MessageState.DEAD]
    assert states.index(MessageState.DEAD) == BAD[stream]
    assert (dead.payload, dead.reason) == (f'{{"n":{BAD[stream]}}}', reason)
    assert dead.failure is not None
    assert dead.failure.message == "it is bad"
    assert {one.deliveries for one in page.items} == {1}


async def test_one_bad_event_of_fifty_on_a_relay(app: offpath.App) -> None:
    async def deliver(event: Event) -> None:
        if event.payload["n"] == BAD[event.stream]:
            raise Undeliverable("it is bad")

    for stream in BAD:
        app.outbox(stream, dispatcher=deliver)
        async with app.batch() as batch:
            for number in range(50):
                batch.publish("t", {"n": number}, stream=stream)
        tally = await app.relay(stream).run_once()
        assert (tally.counts, tally.verdict) == ({"relayed": 49, "dead_lettered": 1}, "degraded")
        await _one_is_dead(app, stream, "undeliverable")


async def test_one_bad_message_of_fifty_in_the_inbox(app: offpath.App) -> None:
    @app.task
    async def booked(number: int) -> None: ...

    async def apply(message: InboxMessage, context: InboxContext) -> None:
        context.enqueue(booked.job(message.payload["n"]))
        if message.payload["n"] == BAD[message.source]:
            raise Rejected("it is bad")

    for source in BAD:
        app.inbox(source)(apply)
        for number in range(50):
            await app.accept(source, f"evt_{number}", {"n": number})
        tally = await app.drain(source).run_once()
        assert (tally.counts, tally.verdict) == ({"applied": 49, "dead_lettered": 1}, "degraded")
        await _one_is_dead(app, source, "rejected")
    assert await app.jobs.count(task="booked") == 3 * 49


async def test_one_bad_event_of_fifty_in_a_router(app: offpath.App) -> None:
    async def deliver(event: RoutedEvent) -> None:
        if event.payload["n"] == BAD[event.domain]:
            raise ValueError("it is bad")

    await app.routers.open_gate()
    for domain, bad in BAD.items():
        router = app.router(domain, domain=domain, start="beginning")
        router.route(deliver=deliver, name="all", enabled=True, dry_run=False)
        await router.open_gate()
        async with app.batch() as batch:
            ids = [batch.append(domain, "t", "s", {"n": number}) for number in range(50)]
        run = await router.run_once()
        assert (run.counts, run.verdict) == ({"sent": 49, "failed": 1}, "degraded")
        attempts = await app.store().attempts(domain)
        assert [one.event for one in attempts] == ids
        failed = [one.event for one in attempts if one.status is AttemptStatus.FAILED]
        (letter,) = await app.store().letters(domain)
        assert failed == [letter.event.id] == [ids[bad]]
        assert letter.event.payload == f'{{"n":{bad}}}'
        assert letter.detail == "ValueError: it is bad"
