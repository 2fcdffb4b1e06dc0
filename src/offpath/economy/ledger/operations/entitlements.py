"""Entitlements given and taken by hand: who owns what, without any money."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.ownership import grant, revoke
from offpath.economy.ledger.operations.plans import Family, Planning, fingerprint
from offpath.economy.ledger.rows import entitlement_id, entitlement_key, owned
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.records import Receipt

BY_HAND = "operator"
"""The source of what was given by hand."""


class GrantEntitlement(
    Struct, frozen=True, kw_only=True, gc=False, tag="grantEntitlement", tag_field="kind"
):
    """A thing given to a user. By operators and the system only."""

    key: str
    actor: Actor
    user: str
    sku: str
    expires_at: datetime | None = None
    """They own it up to and with this time; None: for ever."""


class RevokeEntitlement(
    Struct, frozen=True, kw_only=True, gc=False, tag="revokeEntitlement", tag_field="kind"
):
    """A thing taken from a user, wherever they have it from. By operators and the system only."""

    key: str
    actor: Actor
    user: str
    sku: str


def check(request: GrantEntitlement | RevokeEntitlement, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.user(request.user, "user")
    if isinstance(request, RevokeEntitlement):
        checks.text(request.sku, "sku")
    else:
        checks.name(request.sku, "sku")
        if request.expires_at is not None:
            checks.moment(request.expires_at, "expires_at")
    trusted_only(request.actor, "grant or revoke what somebody owns")


def plan_grant(request: GrantEntitlement, planning: Planning) -> LedgerOp:  # noqa: ARG001 - as of every family
    """A row, and nothing else."""
    user, sku = request.user, request.sku
    given = request.expires_at
    expires = None if given is None else checks.moment(given, "expires_at")

    def decide(book: Book) -> Receipt:
        grant(book, user, sku, source=BY_HAND, expires_at=expires)
        return Receipt(id=entitlement_id(user, sku))

    return LedgerOp(
        decide=decide,
        needs=Needs(sides=frozenset((entitlement_key(user, sku),))),
        key=request.key,
        fingerprint=fingerprint(request),
    )


def plan_revoke(request: RevokeEntitlement, planning: Planning) -> LedgerOp:  # noqa: ARG001 - as of every family
    """Declines ``NOT_ENTITLED`` when they do not own it (any more)."""
    user, sku = request.user, request.sku

    def decide(book: Book) -> Receipt:
        if not owned(book.side("entitlement", entitlement_id(user, sku)), book.now):
            raise Declined("NOT_ENTITLED", userId=user, sku=sku)
        revoke(book, user, sku)
        return Receipt(id=entitlement_id(user, sku))

    return LedgerOp(
        decide=decide,
        needs=Needs(sides=frozenset((entitlement_key(user, sku),))),
        key=request.key,
        fingerprint=fingerprint(request),
    )


GRANT = Family(kind="grantEntitlement", check=check, plan=plan_grant)
REVOKE = Family(kind="revokeEntitlement", check=check, plan=plan_revoke)
