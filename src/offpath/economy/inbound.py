"""Operations that come in from outside: kept in the inbox once per event, and applied later.

Nothing is posted where a message arrives. Its row holds the operation; a drain submits it under
the operation's own key, so that it happens once however often it is delivered.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from offpath.economy.ledger import wire
from offpath.economy.ledger.operations.checks import LONGEST_KEY
from offpath.economy.ledger.operations.families import Operation, checked
from offpath.economy.ledger.outcome import Outcome
from offpath.economy.ledger.outcome import Rejected as Declined
from offpath.economy.ledger.rules import Rules
from offpath.economy.sweeps.drain_inbox import SOURCE, applied, not_applied
from offpath.errors import Abort
from offpath.events.inbox import InboxMessage, Rejected
from offpath.model import checks
from offpath.model.correlation import CARRIED
from offpath.model.ledger.faults import LedgerError, ProviderFailed

if TYPE_CHECKING:
    from offpath.events.inbox import Accepted

AT_ONCE = 128
"""Operations in hand at the same time: as many as may share one transaction."""


class Inbound(Protocol):
    """The part of an economy that is used here."""

    app: Any
    rules: Rules

    async def submit(self, request: Operation, *, correlation_id: str | None = None) -> Outcome:
        """Have an operation decided."""
        ...


def event_key(event_id: str) -> str:
    """The idempotency key of what an event from outside makes: ``whk:<event id>``; of an id that is
    too long for a key, by its SHA-256.
    """
    key = f"whk:{event_id}"
    return key if len(key) <= LONGEST_KEY else f"whk:{sha256(event_id.encode()).hexdigest()}"


async def accept_operation(
    economy: Inbound,
    event_id: str,
    request: Operation,
    *,
    within: object = None,
    correlation_id: str | None = None,
) -> Accepted:
    """Keep an operation for later, once per ``event_id``; says whether it was new.

    With ``within`` it joins the caller's transaction: rolled back, it leaves no row.
    ``correlation_id`` goes with it, and with the events that it causes when it is applied. Raises
    the faults of a request that cannot be meant, and keeps nothing: it could only die.
    """
    checks.text(event_id, "event_id", longest=checks.MAX_KEY)
    checked(request, economy.rules)
    payload = wire.encode(request)
    headers = None if correlation_id is None else {CARRIED: correlation_id}
    accepted: Accepted = await economy.app.accept(
        SOURCE, event_id, payload, within=within, headers=headers
    )
    return accepted


def register_inbox(economy: Inbound) -> None:
    """Have the app's workers apply what :func:`accept_operation` kept."""

    async def apply(message: InboxMessage) -> None:
        await _applied(economy, message)

    economy.app.inbox(SOURCE, concurrency=AT_ONCE)(apply)


async def _applied(economy: Inbound, message: InboxMessage) -> None:
    """Submit one. Raises what says whether it comes again: see :class:`Rejected`."""
    try:
        request = wire.decode(message.payload)
        outcome = await economy.submit(request, correlation_id=message.headers.get(CARRIED))
    except LedgerError as error:
        not_applied(message.id, error.code, retryable=error.retryable)
        if error.retryable:
            raise
        raise Abort(error.code) from error
    except Exception:
        not_applied(message.id, ProviderFailed.code, retryable=True)
        raise
    if isinstance(outcome, Declined):
        not_applied(message.id, outcome.reason, retryable=False)
        raise Rejected(outcome.reason)
    applied(outcome)
