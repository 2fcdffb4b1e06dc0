"""Parts that the tests of the brokers' dispatchers share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import offpath
from offpath import RetryOptions
from offpath.events import Event
from offpath.runtime.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RETRY = RetryOptions(base=1, cap=1, jitter=0)


@asynccontextmanager
async def sending(
    dispatcher: Any, **more: Any
) -> AsyncIterator[tuple[offpath.App, Any, ManualClock]]:
    """An app whose outbox goes to ``dispatcher``, its relay, and its clock."""
    clock = ManualClock()
    app = offpath.App("memory://", auto_start=False, clock=clock)
    app.outbox("orders", dispatcher=dispatcher, retry=RETRY, **more)
    async with app:
        relay = app.relay("orders")
        try:
            yield app, relay, clock
        finally:
            await relay.stop()


async def publish(app: offpath.App, *payloads: Any, **more: Any) -> list[str]:
    """Publish to the stream; returns the ids."""
    async with app.batch() as batch:
        return [batch.publish("paid", one, stream="orders", **more) for one in payloads]


def event(**changed: Any) -> Event:
    """An event as a relay makes it."""
    values: dict[str, Any] = {
        "id": "e-1",
        "stream": "orders",
        "topic": "paid",
        "payload": 1,
        "body": "1",
    }
    return Event(**(values | changed))
