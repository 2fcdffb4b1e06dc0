"""Corrections by hand: an account set right."""

from __future__ import annotations

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.plans import Family, Planning, fingerprint
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import LONGEST_ID, OPENING_EQUITY, chart
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.faults import CurrencyMismatch, InvalidAmount, MalformedOperation
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt


class Adjust(Struct, frozen=True, kw_only=True, gc=False, tag="adjust", tag_field="kind"):
    """An account's balance moved by an amount of credits, against opening equity."""

    key: str
    actor: Actor
    account: str
    amount: Money
    """Above zero raises the balance, below zero lowers it."""
    reason: str


def check_adjust(request: Adjust, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant. Raises ``UnknownAccount``, ``CurrencyMismatch``."""
    amount = checks.money(request.amount, "amount")
    if not amount:
        raise InvalidAmount("an adjustment of zero adjusts nothing")
    known = chart(checks.name(request.account, "account", LONGEST_ID))
    if known.id == OPENING_EQUITY:
        raise MalformedOperation("an adjustment is against opening equity: name another account")
    if amount.currency is not Currency.CREDIT or known.currency is not Currency.CREDIT:
        raise CurrencyMismatch(
            f"adjustments are of credits, against opening equity: {request.account} by {amount} "
            "needs a posting of its own"
        )
    checks.text(request.reason, "reason", checks.LONGEST_REASON)
    trusted_only(request.actor, "adjust accounts")


def plan_adjust(request: Adjust, planning: Planning) -> LedgerOp:
    """One posting. Raises ``Overdraft`` when decided, should the account not have so much."""
    entry = chart(request.account).entry(request.amount.minor)
    posting = NewPosting(
        id=planning.new_id(),
        entries=(Entry(request.account, entry), Entry(OPENING_EQUITY, -entry)),
        meta={"kind": "adjust", "reason": request.reason, "by": request.actor.id},
    )

    def decide(book: Book) -> Receipt:
        book.post(posting)
        return Receipt(id=posting.id, postings=(posting.id,))

    return LedgerOp(
        decide=decide,
        needs=Needs(accounts=frozenset((request.account, OPENING_EQUITY))),
        key=request.key,
        fingerprint=fingerprint(request),
    )


ADJUST = Family(kind="adjust", check=check_adjust, plan=plan_adjust)
