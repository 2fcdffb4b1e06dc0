"""The fee that the platform takes of its revenue in real money, and never more than is its own."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from offpath.economy.ledger.obligations import sweepable
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.rules import NewId, Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import (
    REVENUE,
    STORED_VALUE,
    TRUST_CASH,
    USD_CLEARING,
)
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.faults import Commingling, InvalidAmount
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs, RaisedNeed
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt

NOTHING: Final = "NOTHING_TO_SWEEP"
"""There is nothing that the platform may take now: no posting, no event, and no key used."""


def fees_swept(
    key: str, rules: Rules, new_id: NewId, *, amount: Money | None = None, now: int | None = None
) -> LedgerOp:
    """Take ``amount``, or with None all that may be taken, once for each key.

    Raises ``InvalidAmount`` for what is not above zero or pays no whole cents, and ``Commingling``
    when decided, should it be more than cash beyond all obligations covers, or than revenue whose
    refund window is over.
    """
    if amount is not None:
        _whole_cents(checks.amount(amount), rules)
    asked = None if amount is None else amount.minor
    ids = _FeeIds(new_id(), new_id(), new_id())

    def decide(book: Book) -> Receipt:
        most = ceiling(book, rules)
        if asked is not None and asked > most:
            raise Commingling(
                f"{amount} is more than the platform may take: {money.text('CREDIT', most)} is "
                "matured revenue that cash covers beyond all that is owed"
            )
        minor = most if asked is None else asked
        if not minor:
            raise Declined(NOTHING)
        return _swept(book, minor, rules, ids)

    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset((TRUST_CASH, USD_CLEARING, REVENUE, STORED_VALUE)),
            raised=frozenset((RaisedNeed(REVENUE, rules.horizon(None)),)),
            totals=True,
        ),
        key=f"sweep:{checks.text(key, 'key')}",
        fingerprint=str(asked),
        now=now,
    )


def _whole_cents(amount: Money, rules: Rules) -> None:
    step = rules.rates.par.step
    if amount.minor % step:
        raise InvalidAmount(
            f"{amount} pays no whole cents: take a multiple of {money.text('CREDIT', step)}, so "
            "that nothing is rounded off"
        )


class _FeeIds(Struct, frozen=True):
    credit: str
    dollars: str
    event: str


def ceiling(book: Book, rules: Rules) -> int:
    """The most credit minor units that may be taken now."""
    revenue = book.balance(REVENUE)
    young = book.raised(REVENUE, book.now - rules.horizon(None))
    return sweepable(book.totals(), rules.rates, max(0, revenue - young))


def _swept(book: Book, minor: int, rules: Rules, ids: _FeeIds) -> Receipt:
    dollars = rules.rates.par.floor(minor)
    meta = {"kind": "fees.sweep", "rateId": rules.rates.par.id}
    entries = (Entry(REVENUE, minor), Entry(STORED_VALUE, -minor))
    paid = (Entry(USD_CLEARING, dollars), Entry(TRUST_CASH, -dollars))
    book.post(NewPosting(id=ids.credit, entries=entries, meta={**meta, "pair": ids.dollars}))
    book.post(NewPosting(id=ids.dollars, entries=paid, meta={**meta, "pair": ids.credit}))
    shown = {"amount": money.text("CREDIT", minor), "usd": money.text("USD", dollars)}
    publish(book, ids.event, "fees.swept", subject=ids.credit, key=REVENUE, data=shown)
    return Receipt(id=ids.credit, postings=(ids.credit, ids.dollars), facts=shown)
