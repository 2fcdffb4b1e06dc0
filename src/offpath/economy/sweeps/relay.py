"""The sweep that hands events to the outside: the app's outbox relay.

Leases, backoff and dead letters are the outbox's own.
"""

from __future__ import annotations

import logging

from offpath.economy.ledger.operations.events import STREAM
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.context import Pass, SweptEconomy
from offpath.economy.sweeps.summaries import FailedMessage, Reasoned, RelaySummary
from offpath.economy.sweeps.sweep import Work
from offpath.model.ledger.faults import ProviderFailed
from offpath.model.message import Box
from offpath.sweeps.messages import KeptMovers, moved

_BACKLOG = 100_000


def relay_of(economy: SweptEconomy) -> Work:
    """Hand due events of the economy's stream to its dispatcher; without one it rests."""
    movers = KeptMovers(economy.app.store, lambda: {STREAM: lambda: economy.app.relay(STREAM)})

    async def relay(run: Pass) -> RelaySummary:
        await _tell_backlog(run)
        tally = await moved(movers.all()[STREAM], run.limit)
        run.more = tally.more
        code = ProviderFailed.code
        dead = tally.buckets.get("dead_lettered", ())
        for event in dead:
            run.tell(logging.ERROR, "worker.relay.dead_lettered", id=event, reason=code)
        failed = tally.buckets.get("failed", ())
        return RelaySummary(
            relayed=tally.buckets.get("relayed", ()),
            failed=tuple(FailedMessage(event, code, retryable=True) for event in failed),
            dead_lettered=tuple(Reasoned(event, code) for event in dead),
        )

    return relay


async def _tell_backlog(run: Pass) -> None:
    try:
        waiting = await run.store.message_backlog(limit=_BACKLOG)
    except Exception as error:  # noqa: BLE001 - a figure; the relay itself will say more
        run.report(error, "economy:relay backlog")
        return
    ours = [one for one in waiting if one.box is Box.OUT and one.stream == STREAM]
    since = [one.oldest_due_at for one in ours if one.oldest_due_at is not None]
    age = (run.now - min(since)).total_seconds() if since else None
    telemetry.backlog(run.metrics, sum(one.due for one in ours), age)
