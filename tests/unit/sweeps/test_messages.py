"""Routers, the inbox and the outbox as sweeps: all streams in one pass, none in another's way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from offpath import App
from offpath.config import load_settings
from offpath.events import Event, InboxMessage
from offpath.events.deliveries import Outbox
from offpath.model.tally import SweepResult
from offpath.sweeps import Verdict
from offpath.sweeps.catalogue import OWN
from offpath.testing import ManualClock


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with App(clock=ManualClock(), auto_start=False) as app:
        yield app


def told(app: App, stream: str = "default") -> list[Any]:
    """The payloads that a stream's dispatcher gets."""
    seen: list[Any] = []

    @app.outbox(stream)
    async def dispatch(event: Event) -> None:
        seen.append(event.payload)

    return seen


async def swept(app: App, name: str, **options: Any) -> SweepResult:
    return (await app.worker().run_once(only=name, **options))[name]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("router", "the app has no router: app.router(...)"),
        ("drain_inbox", "no source has a handler: @app.inbox(...)"),
        ("relay", "no stream has a dispatcher: app.outbox(...)"),
    ],
)
async def test_what_there_is_nothing_for_is_an_empty_success_that_says_why(
    app: App, name: str, why: str
) -> None:
    await app.publish("t")
    await app.accept("bank", "k")
    result = await swept(app, name)
    assert (result.verdict, result.error, result.tally.skipped) == (Verdict.EMPTY, None, why)


async def test_where_relays_are_off_a_pass_moves_nothing_and_says_so() -> None:
    settings = load_settings(url="memory://", relays=False)
    async with App(settings=settings, auto_start=False) as app:
        seen = told(app)
        await app.publish("t", 1)
        result = await swept(app, "relay")
        assert result.tally.skipped is not None
        assert "OFFPATH_RELAYS" in result.tally.skipped
        assert seen == []


async def test_one_run_takes_an_event_all_the_way(app: App) -> None:
    """From the log by a router, and from the inbox by its handler, to the outbox, and out."""
    seen = told(app)
    router = app.router("iu", domain="iu", start="beginning")
    router.route(type="paid", deliver=Outbox("default"), enabled=True, dry_run=False)

    @app.inbox("bank")
    async def apply(message: InboxMessage) -> None:
        await app.publish("applied", message.payload)

    await app.routers.open_gate()
    await router.open_gate()
    await app.log.append("iu", "paid", "eu", {"n": 1}, key="k")
    await app.accept("bank", "k", "b")
    run = await app.worker().run_once()
    assert [result.name for result in run.batch] == list(OWN)
    assert run["router"].tally.counts == {"sent": 1}
    assert run["drain_inbox"].tally.counts == {"applied": 1}
    assert run["relay"].tally.counts == {"relayed": 2}
    assert sorted(seen, key=str) == ["b", {"n": 1}]


async def test_a_closed_gate_is_told_and_no_failure(app: App) -> None:
    app.router("iu", domain="iu", start="beginning")
    await app.log.append("iu", "paid", "eu", 1)
    result = await swept(app, "router")
    assert (result.verdict, result.tally.skipped) == (Verdict.EMPTY, "iu: gate: master")


async def test_a_stream_that_cannot_be_moved_at_all_stops_no_other(app: App) -> None:
    seen = told(app)

    class Away:
        async def open(self) -> None:
            raise ConnectionError("password=hunter2")

        async def dispatch(self, event: Event) -> None:
            raise AssertionError

    app.outbox("away", dispatcher=Away())
    await app.publish("t", 1)
    await app.publish("t", 2, stream="away")
    result = await swept(app, "relay")
    assert seen == [1]
    assert result.verdict is Verdict.DEGRADED
    assert result.tally.buckets["failed"] == ("away",)
    assert result.tally.reasons == {"away": "ConnectionError"}


async def test_when_no_stream_can_be_moved_the_pass_fails_with_the_cause(app: App) -> None:
    class Away:
        async def open(self) -> None:
            raise ConnectionError("down")

        async def dispatch(self, event: Event) -> None:
            raise AssertionError

    app.outbox("away", dispatcher=Away())
    await app.publish("t", 2, stream="away")
    result = await swept(app, "relay")
    assert (result.verdict, result.error, result.retryable) == (
        Verdict.FAILED,
        "ConnectionError",
        True,
    )


async def test_a_limit_is_shared_so_that_no_stream_takes_it_all(app: App) -> None:
    first, second = told(app, "a"), told(app, "b")
    for number in range(10):
        await app.publish("t", number, stream="a")
    await app.publish("t", 10, stream="b")
    result = await swept(app, "relay", limit=4)
    assert (len(first), second, result.tally.more) == (2, [10], True)
    result = await swept(app, "relay", limit=1)
    assert (len(first), result.tally.more) == (3, True)


async def test_a_dispatcher_is_opened_once_for_all_passes_and_closed_with_the_app() -> None:
    calls: list[str] = []

    class Broker:
        async def open(self) -> None:
            calls.append("open")

        async def close(self) -> None:
            calls.append("close")

        async def dispatch(self, event: Event) -> None:
            calls.append("event")

    app = App(clock=ManualClock(), auto_start=False)
    app.outbox(dispatcher=Broker())
    async with app:
        for _ in range(2):
            await app.publish("t")
            await swept(app, "relay")
    assert calls == ["open", "event", "event", "close"]
