"""The sweep that applies what came in: the app's inbox, whose rows hold operations.

Committed and duplicate operations are applied; a rejected one is dead at once, with its reason; a
fault that may go away is tried again after a growing wait.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from msgspec import Struct

from offpath.economy.ledger.outcome import Committed, Duplicate
from offpath.economy.sweeps.context import Pass, SweptEconomy
from offpath.economy.sweeps.summaries import FailedMessage, InboxSummary, Reasoned
from offpath.economy.sweeps.sweep import Work
from offpath.model.ledger.faults import ProviderFailed
from offpath.model.tally import Tally
from offpath.sweeps.messages import KeptMovers, moved

SOURCE: Final = "economy"
"""The inbox source whose messages hold operations."""


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


def drain_of(economy: SweptEconomy) -> Work:
    """Submit the operations that came in; without a handler it rests."""
    movers = KeptMovers(economy.app.store, lambda: {SOURCE: lambda: economy.app.drain(SOURCE)})

    async def drain(run: Pass) -> InboxSummary:
        notes = PassReport([], {})
        token = _notes.set(notes)
        try:
            tally = await moved(movers.all()[SOURCE], run.limit)
        finally:
            _notes.reset(token)
        run.postings.extend(notes.postings)
        run.more = tally.more
        return _told(tally, notes.codes)

    return drain


def _told(tally: Tally, codes: dict[str, tuple[str, bool]]) -> InboxSummary:
    unknown = (ProviderFailed.code, True)
    failed, dead = (tally.buckets.get(name, ()) for name in ("failed", "dead_lettered"))
    return InboxSummary(
        applied=tally.buckets.get("applied", ()),
        failed=tuple(FailedMessage(one, *codes.get(one, unknown)) for one in failed),
        dead_lettered=tuple(Reasoned(one, codes.get(one, unknown)[0]) for one in dead),
    )
