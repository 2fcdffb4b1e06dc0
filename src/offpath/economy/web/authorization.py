"""Authorisation of what users ask for: the shop says what is for sale, at which price, from whom.

That a user may ask for an operation (they are its buyer, or its seller) does not say that it is
right: its price, its sellers and its ids come from them. So an operation of a user is put into
their own namespace, and goes on only as the shop's ``authorize`` returns it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offpath.economy.ledger.actors import Actor
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.families import Operation
from offpath.economy.ledger.operations.spends import Share, Spend
from offpath.economy.ledger.operations.subscriptions import Subscribe
from offpath.economy.ledger.outcome import Rejected
from offpath.economy.ledger.periods import Overdue
from offpath.errors import InvalidArgument
from offpath.model.ledger.faults import LedgerError
from offpath.model.ledger.money import Money
from offpath.model.ledger.rates import BPS
from offpath.runtime.seats import asked as asked_of

Authorized: TypeAlias = Operation | Rejected
Authorize: TypeAlias = Callable[[Actor, Operation], Authorized | Awaitable[Authorized]]
"""The result of authorizing a user's operation: the operation to submit, completed and priced by
the shop, or a ``Rejected`` with a reason of the shop's own.
"""

NOT_AUTHORIZED: Final = Rejected(
    "NOT_AUTHORIZED",
    {
        "hint": "this service takes nothing from users: give economy_service(authorize=...), "
        "prices=... or trust_callers=True"
    },
)


class Offer(Struct, frozen=True, kw_only=True):
    """The price of a thing, and who earns from it."""

    price: Money
    sellers: tuple[Share, ...]
    """They sum to 10,000 basis points; a subscription has one."""
    period: float | timedelta | str | None = None
    """It is a subscription, paid anew after so many seconds, or by the calendar (``P1M``); None: it
    is bought once."""
    zone: str = "UTC"
    """The zone of a period of the calendar; this and the next two are the offer's word alone."""
    grace: float | timedelta | None = None
    overdue: Overdue = "charge"
    promo: bool = False
    """True if it may be paid with promo credits. The platform pays sellers for these, so friends of
    a seller could turn what they were given into money of theirs."""


Offers: TypeAlias = Mapping[str, Offer] | Callable[[str], "Offer | Awaitable[Offer | None] | None"]
"""The goods for sale, by sku: a mapping, or a function that gives None for the rest."""


def priced(offers: Offers) -> Authorize:
    """An ``authorize`` that sells what is on offer, and lets users pay out and cancel.

    A user names the price that they agree to, so that they never pay another: an order is declined
    with ``PRICE_CHANGED`` {sku, price} when it is not the offer's, a subscription also when it
    names another ``period``; and with ``NOT_FOR_SALE`` {sku} what is not on offer. Whoever earns is
    the offer's word alone. Raises ``InvalidArgument`` for what is no :data:`Offers`.
    """
    if not isinstance(offers, Mapping) and not callable(offers):
        raise InvalidArgument("prices maps a sku to its Offer, or is a function from sku to Offer")

    async def authorize(_: Actor, asked: Operation) -> Authorized:
        match asked:
            case Spend() | Subscribe():
                offer = await _offer(offers, asked.sku)
                return _sold(asked, offer)
        # A payout or a cancellation is bounded by what is theirs; the economy refuses them the
        # rest.
        return asked

    return authorize


async def authorized(authorize: Authorize, actor: Actor, operation: Operation) -> Authorized:
    """The operation that the shop makes of a user's. Raises ``LedgerError`` for what is neither."""
    found: object = await asked_of(authorize, actor, owned(operation, actor.id))
    if not isinstance(found, Operation | Rejected):
        raise LedgerError(
            f"authorize returned {type(found).__name__}: return the operation to submit, or "
            "Rejected(reason, fields)"
        )
    return found


def owned(asked: Operation, user: str) -> Operation:
    """The operation with its ids in the user's namespace, ``user:<id>:...``, so that they can take
    no id of another or of the shop's; and without promo credits until the shop decides on these.

    Raises ``MalformedOperation``, and ``InvalidAmount`` for a price that nothing can have.
    """
    if isinstance(asked, Spend | Subscribe):
        checks.amount(asked.price, "price")
    space = f"user:{checks.user(user, 'the actor')}:"
    key = space + checks.name(asked.key, "key")
    match asked:
        case Spend():
            order = space + checks.name(asked.order_id, "order_id")
            return replace(asked, key=key, order_id=order, promo=False)
        case Subscribe():
            return replace(asked, key=key, promo=False)
    return replace(asked, key=key)


async def _offer(offers: Offers, sku: str) -> Offer | None:
    if isinstance(offers, Mapping):
        return offers.get(sku)
    found: Offer | None = await asked_of(offers, sku)
    return found


def _sold(asked: Spend | Subscribe, offer: Offer | None) -> Authorized:
    if offer is None or isinstance(asked, Subscribe) is (offer.period is None):
        return Rejected("NOT_FOR_SALE", {"sku": asked.sku})
    if asked.price != offer.price or not _same_period(asked, offer):
        return Rejected("PRICE_CHANGED", {"sku": asked.sku, "price": str(offer.price)})
    if isinstance(asked, Spend):
        return replace(asked, recipients=offer.sellers, promo=offer.promo)
    if len(offer.sellers) != 1 or offer.sellers[0].bps != BPS:
        raise LedgerError(f"the offer of {asked.sku!r} is a subscription: it has one seller")
    return replace(
        asked,
        seller=offer.sellers[0].seller,
        promo=offer.promo,
        zone=offer.zone,
        grace=offer.grace,
        overdue=offer.overdue,
    )


def _same_period(asked: Spend | Subscribe, offer: Offer) -> bool:
    return isinstance(asked, Spend) or _seconds(asked.period) == _seconds(offer.period)


def _seconds(period: float | timedelta | str | None) -> float | str | None:
    return period.total_seconds() if isinstance(period, timedelta) else period
