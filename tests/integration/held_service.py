"""A service each of whose parts hangs with something in hand until its process is killed.

The leases are those that users have.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime

import offpath
from offpath.events import Event, InboxMessage, RoutedEvent
from offpath.sweeps import SweepContext
from tests.integration.journal import note

HANGS = "OFFPATH_TEST_HANGS"
"""Set in the environment of the process that is to hang."""

app = offpath.App()


async def hold(what: str) -> None:
    """Tell that this is in hand, and keep it."""
    note("held", what)
    if os.environ.get(HANGS):
        await asyncio.sleep(3_600)


async def relayed(event: Event) -> None:
    """An event of the outbox."""
    await hold(f"outbox-{event.payload}")


app.outbox("out", dispatcher=relayed)


@app.inbox("bank")
async def applied(message: InboxMessage) -> None:
    """A message of the inbox."""
    await hold(f"inbox-{message.key}")


log = app.router("held", domain="held", start="beginning")


@log.route(name="all", enabled=True, dry_run=False)
async def routed(event: RoutedEvent) -> None:
    """An event of the log."""
    await hold(f"log-{event.key}")


@app.sweep("lead", every=1.0, row_timeout=60)
class Lead:
    """A sweep that one worker leads."""

    async def claim(self, ctx: SweepContext, now: datetime, limit: int) -> list[str]:
        """One row."""
        await hold("sweep")
        return []

    async def advance(self, ctx: SweepContext, row: str) -> None:
        """Never called."""
