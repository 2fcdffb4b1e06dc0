"""The sweeps that move messages: the app's relay and its drain, with summaries of the economy's.

Leases, backoff and dead letters are the outbox's and the inbox's own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Protocol

from msgspec import Struct

from offpath.economy.ledger.operations.events import STREAM
from offpath.economy.ledger.outcome import Committed, Duplicate
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.context import Pass
from offpath.economy.sweeps.summaries import FailedMessage, InboxSummary, Reasoned, RelaySummary
from offpath.errors import PassFailed
from offpath.model.ledger.faults import ProviderFailed
from offpath.model.message import Box
from offpath.model.tally import Tally
from offpath.store.protocol import Store

SOURCE: Final = "economy"
"""The inbox source whose messages hold operations."""
_BACKLOG = 100_000


class PassReport(Struct):
    """The report of the inbox handler to its pass."""

    postings: list[str]
    codes: dict[str, tuple[str, bool]]
    """By a message's id: why it was not applied, and whether trying again may help."""


_notes: ContextVar[PassReport | None] = ContextVar("offpath_economy_notes", default=None)


def applied(outcome: Committed | Duplicate) -> None:
    """Told by the handler: it applied an operation, or that was done before."""
    if (notes := _notes.get()) is not None and isinstance(outcome, Committed):
        notes.postings.extend(outcome.receipt.postings)


def not_applied(message_id: str, code: str, *, retryable: bool) -> None:
    """Told by the handler: it could not, or may not, apply an operation."""
    if (notes := _notes.get()) is not None:
        notes.codes[message_id] = (code, retryable)


class StreamMover(Protocol):
    """The mover of the messages of one stream."""

    async def run_once(self, *, limit: int) -> Tally:
        """Move up to ``limit``; raises ``PassFailed`` when all failed."""
        ...


class KeptMover:
    """A relay or a drain, kept from pass to pass while the app has the same store."""

    def __init__(self, make: Callable[[], StreamMover]) -> None:
        self._make = make
        self._made: StreamMover | None = None
        self._made_for: Store | None = None

    async def move(self, store: Store, limit: int) -> Tally:
        """One pass, whatever became of its messages. Raises what leasing them raises."""
        if self._made is None or self._made_for is not store:
            self._made, self._made_for = self._make(), store
        try:
            return await self._made.run_once(limit=limit)
        except PassFailed as failed:
            return failed.tally


async def relayed(run: Pass, mover: KeptMover) -> RelaySummary:
    """Hand due events of the economy's stream to its dispatcher; without one it rests."""
    await _tell_backlog(run)
    tally = await mover.move(run.store, run.limit)
    run.more = tally.more
    code = ProviderFailed.code
    dead = tally.buckets.get("dead_lettered", ())
    for event in dead:
        run.tell(logging.ERROR, "worker.relay.dead_lettered", id=event, reason=code)
    return RelaySummary(
        relayed=tally.buckets.get("relayed", ()),
        failed=tuple(
            FailedMessage(event, code, retryable=True) for event in tally.buckets.get("failed", ())
        ),
        dead_lettered=tuple(Reasoned(event, code) for event in dead),
    )


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


async def drained(run: Pass, mover: KeptMover) -> InboxSummary:
    """Submit the operations that came in; without a handler it rests."""
    notes = PassReport([], {})
    token = _notes.set(notes)
    try:
        tally = await mover.move(run.store, run.limit)
    finally:
        _notes.reset(token)
    run.postings.extend(notes.postings)
    run.more = tally.more
    told = notes.codes
    unknown = (ProviderFailed.code, True)
    dead = tally.buckets.get("dead_lettered", ())
    return InboxSummary(
        applied=tally.buckets.get("applied", ()),
        failed=tuple(
            FailedMessage(one, *told.get(one, unknown)) for one in tally.buckets.get("failed", ())
        ),
        dead_lettered=tuple(Reasoned(one, told.get(one, unknown)[0]) for one in dead),
    )
