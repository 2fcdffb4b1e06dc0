"""Reports of payment providers: verified, turned into an operation, and kept to be applied.

Nothing is posted where a report arrives. Four things make a repeat harmless: the signature's age,
the inbox's key, and the operation's own key, which is made of the event's id; and what is refused
leaves the id free for the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from offpath.economy.inbound import accept_operation, event_key
from offpath.economy.ledger.operations.families import checked
from offpath.economy.ledger.requests import (
    Actor,
    Clawback,
    Request,
    ReversePayout,
    SettlePayout,
    TopUp,
)
from offpath.economy.sweeps.drain_inbox import SOURCE
from offpath.errors import InvalidArgument
from offpath.events.door import Door, Ignored, Refusal
from offpath.model import checks
from offpath.model.correlation import HEADERS, correlation_id
from offpath.model.ledger.faults import LedgerError
from offpath.model.ledger.money import Money
from offpath.runtime.seats import called, check_seat

if TYPE_CHECKING:
    from offpath.economy.economy import Economy
    from offpath.events.door import Verifies, Verify
    from offpath.events.inbox import Accepted

MOST_BYTES: Final = 65_536
TIMEOUT: Final = 10.0
REPEATED: Final = "offpath_economy_webhook_duplicates_total"

Decode = Callable[[Mapping[str, Any], str, Actor], "Request | None"]
"""Turns an event into an operation: given the event, the key and the actor that the operation must
have. None: the event is none of the economy's, and is answered 200 ``ignored``.
"""


def provider_event(event: Mapping[str, Any], key: str, actor: Actor) -> Request | None:
    """The operation of an event in our own form, ``{"type": ..., "data": {...}}``.

    ``purchase`` {user, amount, source, ref?} tops up, ``payoutSettled`` {payoutId, providerRef,
    amount?} settles, ``payoutFailed`` {user, payoutId, reason?} reverses, ``dispute`` {user,
    amount, orderId?, dollars?, fee?, ref?} claws back. Other types are ignored. Raises KeyError,
    TypeError and ``LedgerError`` for data that does not fit.
    """
    data = event["data"]
    match event["type"]:
        case "purchase":
            amount = Money.parse(data["amount"])
            return TopUp(
                key=key,
                actor=actor,
                user=data["user"],
                amount=amount,
                source=data["source"],
                ref=data.get("ref"),
            )
        case "payoutSettled":
            return SettlePayout(
                key=key,
                actor=actor,
                payout_id=data["payoutId"],
                provider_ref=data["providerRef"],
                provider_amount=Money.parse(data["amount"]) if "amount" in data else None,
            )
        case "payoutFailed":
            return ReversePayout(
                key=key,
                actor=actor,
                user=data["user"],
                payout_id=data["payoutId"],
                reason=data.get("reason", "payout.provider_failed"),
                provider_reported=True,
            )
        case "dispute":
            return Clawback(
                key=key,
                actor=actor,
                user=data["user"],
                amount=Money.parse(data["amount"]),
                order_id=data.get("orderId"),
                dollars=Money.parse(data["dollars"]) if "dollars" in data else None,
                fee=Money.parse(data["fee"]) if "fee" in data else None,
                ref=data.get("ref"),
            )
        case _:
            return None


def webhook_door(
    economy: Economy,
    provider: str,
    *,
    verifier: Verifies | Verify,
    decode: Decode = provider_event,
    max_body_bytes: int = MOST_BYTES,
    body_timeout: float | timedelta = TIMEOUT,
) -> Door:
    """An ASGI app for what a provider posts: give it to ``economy_service(webhooks=...)``.

    It verifies (an :class:`Verifier` for Standard Webhooks), turns the event into an
    operation with ``decode``, and keeps that in the inbox under the event's id; workers submit it.
    The request's id goes with it, to the events that it causes.
    Answers: 202 ``accepted``, 200 ``duplicate`` or ``ignored``, 401 when it is not genuine or too
    old, 400 when it holds no operation or one that cannot be meant (which ``on_error`` is told),
    413, 408, and 503 while the store is away. Raises ``InvalidArgument``.
    """
    name = checks.name(provider, "provider")
    if ":" in name:  # it parts the provider from the event's id
        raise InvalidArgument(f"provider must have no colon: {name!r}")
    check_seat(decode, "decode", plain=True)
    actor = Actor.system(f"webhook:{name}")

    async def accept(
        source: str,  # noqa: ARG001 - the door's; all providers share the inbox of operations
        key: str,
        payload: object = None,
        *,
        headers: Mapping[str, str] | None,
    ) -> Accepted:
        # Two providers may well use the same ids.
        event_id = f"{name}:{key}"
        found_by = correlation_id(headers or {}, economy.new_id)
        try:
            request = _decoded(payload, event_key(event_id), actor, decode)
            checked(request, economy.rules)
        except (InvalidArgument, LedgerError) as error:
            # It is genuine, so somebody is to know: money may hang on it.
            economy.report(error, f"webhook {name}")
            raise Refusal(400, error.code) from error
        accepted = await accept_operation(economy, event_id, request, correlation_id=found_by)
        if not accepted.new:
            economy.app.metrics.counter(REPEATED).add()
        return accepted

    return Door(
        SOURCE,
        verifier=verifier,
        key=None,
        accept=accept,
        report=economy.report,
        most_bytes=max_body_bytes,
        timeout=body_timeout,
        keep_headers=HEADERS,
    )


def _decoded(payload: object, key: str, actor: Actor, decode: Decode) -> Request:
    try:
        if not isinstance(payload, Mapping):
            raise InvalidArgument("a provider's event is a JSON object")
        request: Request | None = called(decode, payload, key, actor)
    except (KeyError, TypeError, LedgerError) as error:
        raise InvalidArgument(f"the event holds no operation: {type(error).__name__}") from error
    if request is None:
        raise Ignored
    return request
