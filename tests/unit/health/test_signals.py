"""The signals that alerts are made of, as an app that moves events gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from offpath import App
from offpath.events import Event, Undeliverable
from offpath.model.new import Box
from offpath.testing import ManualClock

STREAMS = ("wallet", "rolling", "agent")


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with App(clock=ManualClock(), auto_start=False) as app:
        yield app


async def publish(app: App, stream: str) -> None:
    """One event of each end: delivered, to be tried again, dead."""

    @app.outbox(stream)
    async def dispatch(event: Event) -> None:
        if event.payload == "dead":
            raise Undeliverable("nobody is there")
        if event.payload == "failed":
            raise ConnectionError("down")

    for payload in ("delivered", "failed", "dead"):
        await app.publish("moved", payload, stream=stream)
    await app.relay(stream).run_once()


@pytest.mark.parametrize("stream", STREAMS)
async def test_publications_are_counted_by_stream_and_outcome(app: App, stream: str) -> None:
    await publish(app, stream)
    told = app.metrics.list("offpath_messages_total")
    counted = {one.labels["outcome"]: one.value for one in told if one.labels["stream"] == stream}
    assert {name: counted[name] for name in ("written", "done", "failed", "dead")} == {
        "written": 3,
        "done": 1,
        "failed": 1,
        "dead": 1,
    }


async def test_for_each_state_of_a_message_entered_less_left_is_the_rows_now(app: App) -> None:
    for stream in STREAMS:
        await publish(app, stream)
    balance: Counter[str] = Counter()
    for one in app.metrics.list("offpath_message_moves_total"):
        balance[one.labels["entered"]] += int(one.value)
        balance[one.labels["left"]] -= int(one.value)
    page = await app.messages.find(box=Box.OUT, limit=100)
    rows = Counter(str(row.state) for row in page.items)
    assert rows == {"done": 3, "pending": 3, "dead": 3}
    assert {state: balance[state] for state in rows} == rows
