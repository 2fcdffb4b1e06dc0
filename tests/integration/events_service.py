"""The service whose relays, drains and routers the tests run in processes, and kill.

Each dispatcher and handler writes to the journal before it does anything else, so that the journal
knows of what was in hand when its process was killed. Leases are short, or else a test would wait
for those of the dead.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import offpath
from offpath.events import Event, InboxContext, InboxMessage, RoutedEvent, inbox, relay, router
from tests.integration.journal import note

LEASE = float(os.environ.get("OFFPATH_TEST_LEASE", "0"))
if LEASE:
    for module in (relay, inbox):
        vars(module)["lease_for"] = lambda timeout: timeout + LEASE
    vars(router)["LEASE"] = LEASE

TAKES = 0.005
"""Seconds that a delivery takes."""
LIMIT = 1.0
"""Seconds that it may take."""
GATE = "OFFPATH_TEST_GATE"
"""Names the file without which the first event of each key fails."""

app = offpath.App()
app.webhooks.deliver()


async def plain(event: Event) -> None:
    """Take any event."""
    note("delivered", event.id, event.attempt)
    await asyncio.sleep(TAKES)


async def in_order(event: Event) -> None:
    """Take any event but the first of its key, which fails twice and until the gate is there."""
    note("ordered", event.payload, event.attempt)
    first = event.payload.startswith("A")
    if first and (event.attempt <= 2 or not Path(os.environ[GATE]).exists()):
        raise ConnectionError("not yet")


app.outbox("plain", dispatcher=plain, timeout=LIMIT, concurrency=16)
app.outbox(
    "ordered",
    dispatcher=in_order,
    ordered=True,
    attempts=10_000,
    retry=offpath.RetryOptions(base=0.05, factor=1.0, jitter=0.0),
    timeout=LIMIT,
)


@app.task
async def booked(key: str) -> str:
    """The trace that the application of a message leaves behind."""
    return key


@app.inbox("bank", timeout=LIMIT, concurrency=16)
async def apply(message: InboxMessage, context: InboxContext) -> None:
    """Book it."""
    note("applying", message.key, message.attempt)
    context.enqueue(booked.job(message.key))
    await asyncio.sleep(TAKES)


@app.task(announce=("queued", "running", "succeeded", "dead"), retry=1)
async def announced(number: int) -> int:
    """Tell of every change."""
    if number < 0:
        raise ValueError("never")
    return number


async def send(event: RoutedEvent) -> None:
    """Take an event of the log."""
    note("routed", event.id, event.attempt)
    await asyncio.sleep(TAKES)


PARTITIONS = 2
iu = app.router("iu", domain="iu", start="beginning", partitions=PARTITIONS)
iu.route(deliver=send, name="all", enabled=True, dry_run=False)
