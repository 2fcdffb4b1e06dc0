"""Promo credits: given to try, spent first, and taken back when they expire."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.funds import tried, velocity_need, within_velocity
from offpath.economy.ledger.operations.plans import Family, Planning, fingerprint
from offpath.economy.ledger.rows import PromoBody, encoded
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import PROMO_FLOAT, promo, spendable
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.faults import MalformedOperation
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt, SideKey, SideRow

LATEST: Final = 5 * 366 * timedelta(days=1) // timedelta(milliseconds=1)
"""The longest time until a promo may expire, in milliseconds: five years, leap days included."""


class GrantPromo(Struct, frozen=True, kw_only=True, gc=False, tag="grantPromo", tag_field="kind"):
    """Credits that the platform gives away. By operators and the system only."""

    key: str
    actor: Actor
    user: str
    amount: Money
    expires_at: datetime
    """In the future, at most five years ahead, in whole milliseconds."""


def check(request: GrantPromo, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.user(request.user, "user")
    checks.amount(request.amount)
    checks.moment(request.expires_at, "expires_at")
    trusted_only(request.actor, "grant promo credits")


def plan(request: GrantPromo, planning: Planning) -> LedgerOp:
    """A posting, and a row of the same id that a sweep finds when it expires."""
    rules, user, minor = planning.rules, request.user, request.amount.minor
    expires = checks.moment(request.expires_at, "expires_at")
    posting_id, event = planning.new_id(), planning.new_id()
    print_ = fingerprint(request)
    attempt = tried(request.key, print_)
    posting = NewPosting(
        id=posting_id,
        entries=(Entry(PROMO_FLOAT, minor), Entry(promo(user), -minor)),
        meta={"kind": "grantPromo", "userId": user, "expiresAt": expires},
    )
    row = SideRow(
        kind="promo",
        id=posting_id,
        owner=user,
        state="OPEN",
        due_at=expires,
        amount=minor,
        anchor=posting_id,
        body=encoded(PromoBody(expires_at=expires)),
    )

    def decide(book: Book) -> Receipt:
        if not book.now < expires <= book.now + LATEST:
            raise MalformedOperation("expires_at must be in the future, at most five years ahead")
        within_velocity(book, rules, "in", user, attempt, minor)
        book.post(posting)
        book.put(row)
        data = {"amount": str(request.amount), "expiresAt": expires}
        publish(book, event, "promo.granted", subject=posting_id, key=user, data=data)
        return Receipt(id=posting_id, postings=(posting_id,), facts={"amount": data["amount"]})

    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset((promo(user), spendable(user), PROMO_FLOAT)),
            sides=frozenset((SideKey("promo", posting_id),)),
            attempts=velocity_need(rules, "in", user, attempt),
        ),
        key=request.key,
        fingerprint=print_,
    )


FAMILY = Family(kind="grantPromo", check=check, plan=plan)
