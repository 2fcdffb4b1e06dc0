"""Side rows: how the ones of each kind are made and read. Their bodies are JSON.

Money in a body is minor units, times are milliseconds. Nothing of it is believed before
:mod:`offpath.economy.ledger.anchors` compared it with what was sealed.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.model.ledger.faults import ChainBroken
from offpath.model.ledger.records import SideKey, SideRow

T = TypeVar("T", bound=Struct)
_encode = msgspec.json.Encoder().encode


class PayoutBody(Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """The content of a payout's row besides its quote (``amount``) and its seller (``owner``)."""

    reserve: int
    """The credits that it took, in minor units."""
    rate_id: str
    provider_ref: str | None = None
    reason: str | None = None
    """The reason why it failed."""
    sending_at: int | None = None
    """The time when it was first given to the provider: from then on it may have been taken."""
    unanswered: int = 0
    """The number of times that it was given to the provider without an answer: any of these may
    have been taken.
    """
    ended_at: int | None = None


class SubscriptionBody(
    Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True
):
    """The content of a subscription's row; its ``owner`` is who pays."""

    seller: str
    sku: str
    price: int
    period: int
    """The length of a paid period, in milliseconds; 0 for one of the calendar."""
    number: int
    """The period that was paid last; 1 is the first."""
    paid_until: int
    """The time when it ends. The row's ``due_at`` is only when somebody looks at it."""
    calendar: str | None = None
    """A calendar's period, such as ``P1M``."""
    zone: str | None = None
    """The zone of a calendar's period."""
    began_at: int | None = None
    """The beginning of the series from which a calendar's periods are reckoned."""
    steps: int = 0
    """The number of periods since then."""
    grace: int | None = None
    """Milliseconds; None: as the settings say."""
    overdue: str = "charge"
    """The treatment of periods that were missed: ``charge``, ``skip`` or ``one``."""


class PromoBody(Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """The content of a promo's row besides its amount; its id is its grant's posting."""

    expires_at: int


class SaleBody(Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """The content of a sale's row; its id is the order's, its ``owner`` who paid."""

    recipient: str
    """The user that got it."""
    sku: str
    price: int
    fee: int
    """The fee with what was left over of the shares."""
    entries: tuple[tuple[str, int], ...]
    """The sale's posting: signed amounts, debit positive."""


class Title(Struct, frozen=True, gc=False, array_like=True):
    """The source from which somebody has a thing, and until when: None is for ever."""

    source: str
    expires_at: int | None = None


class EntitlementBody(
    Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True
):
    """The content of an entitlement's row; its ``owner`` is who has it."""

    sku: str
    source: str
    """``sale:<order>``, a subscription's id, or ``operator``."""
    expires_at: int | None = None
    """It is owned up to and with this time; None: for ever."""
    also: tuple[Title, ...] = ()
    """The other sources from which the user has it: when the first is taken back, they still do."""


def body(row: SideRow, kind: type[T]) -> T:
    """A row's body. Raises ``ChainBroken`` when it is not one."""
    try:
        return msgspec.json.decode(row.body, type=kind)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ChainBroken(f"the {row.kind} {row.id} was altered: {error}") from None


def encoded(value: Struct) -> str:
    """A body as a row holds it."""
    return _encode(value).decode()


def moved(row: SideRow, now: int, *, content: Struct | None = None, **changes: object) -> SideRow:
    """A row with changes, touched at ``now``."""
    if content is not None:
        changes["body"] = encoded(content)
    return replace(row, **{"touched_at": now, **changes})


def entitlement_id(user: str, sku: str) -> str:
    """The id of the row of an owner: users' ids have no colon, so it reads one way only."""
    return f"{user}:{sku}"


def entitlement_key(user: str, sku: str) -> SideKey:
    """The key by which an entitlement is found."""
    return SideKey("entitlement", entitlement_id(user, sku))


def subscription_holder(user: str, seller: str, sku: str) -> str:
    """The unique key that an active subscription holds."""
    return f"{user}:{seller}:{sku}"


def owned(row: SideRow | None, at: int) -> bool:
    """True if what the row is about is owned at a time (ms)."""
    if row is None or row.state != "OWNED":
        return False
    expires = body(row, EntitlementBody).expires_at
    return expires is None or at <= expires
