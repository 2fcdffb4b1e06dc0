"""Funding: the house puts dollars of its own where what is owed to others must be covered."""

from __future__ import annotations

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.plans import Family, Planning, fingerprint
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import TRUST_CASH, USD_CLEARING
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt


class Fund(Struct, frozen=True, kw_only=True, gc=False, tag="fund", tag_field="kind"):
    """Dollars of the house, paid into the cash that is held for users and sellers: for what it gave
    away, and for debts that nobody pays. By operators and the system only.
    """

    key: str
    actor: Actor
    amount: Money
    """In dollars, as they were paid in."""
    reason: str
    ref: str | None = None
    """The name that the bank gives the transfer."""


def check(request: Fund, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.dollars(request.amount)
    checks.text(request.reason, "reason", checks.LONGEST_REASON)
    if request.ref is not None:
        checks.name(request.ref, "ref")
    trusted_only(request.actor, "fund the platform")


def plan(request: Fund, planning: Planning) -> LedgerOp:
    """One posting: a fee sweep turned round, but for its credits."""
    posting, minor = planning.new_id(), request.amount.minor
    ref = {} if request.ref is None else {"ref": request.ref}
    meta = {"kind": "fund", "reason": request.reason, "by": request.actor.id, **ref}
    entries = (Entry(TRUST_CASH, minor), Entry(USD_CLEARING, -minor))

    def decide(book: Book) -> Receipt:
        book.post(NewPosting(id=posting, entries=entries, meta=meta))
        facts = {"amount": str(request.amount)}
        return Receipt(id=posting, postings=(posting,), facts=facts)

    return LedgerOp(
        decide=decide,
        needs=Needs(accounts=frozenset((TRUST_CASH, USD_CLEARING))),
        key=request.key,
        fingerprint=fingerprint(request),
    )


FAMILY = Family(kind="fund", check=check, plan=plan)
