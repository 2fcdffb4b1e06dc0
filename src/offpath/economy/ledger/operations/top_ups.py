"""Topping up: a user paid real money and gets credits."""

from __future__ import annotations

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.debts import debts_of, netted
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.funds import tried, velocity_need, within_velocity
from offpath.economy.ledger.operations.maturity import returned
from offpath.economy.ledger.operations.plans import Family, Planning, fingerprint
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import (
    REVENUE_USD,
    STORED_VALUE,
    TRUST_CASH,
    USD_CLEARING,
    spendable,
)
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.faults import MalformedOperation
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt


class TopUp(Struct, frozen=True, kw_only=True, gc=False, tag="topUp", tag_field="kind"):
    """Credits that were bought. By operators and the system only."""

    key: str
    actor: Actor
    user: str
    amount: Money
    source: str
    """The way in which it was paid: ``card``, ``crypto``, ``steam``, ``meta``, ... It says how long
    the credits wait.
    """
    ref: str | None = None
    """The payment processor's name of the payment, by which ``reconcile`` finds it in what the
    processor settled; None: the key."""


def check(request: TopUp, rules: Rules) -> None:
    """Refuse what cannot be meant."""
    checks.user(request.user, "user")
    amount = checks.amount(request.amount)
    if request.ref is not None:
        checks.text(request.ref, "ref", checks.LONGEST_KEY)
    if returned(checks.name(request.source, "source")):
        raise MalformedOperation(f"{request.source!r} is the source of failed payouts alone")
    bundles = rules.settings.top_up_bundles_minor
    if bundles and amount.minor not in bundles:
        raise MalformedOperation(f"{amount} is none of the amounts that can be topped up")
    trusted_only(request.actor, "top up")


def plan(request: TopUp, planning: Planning) -> LedgerOp:
    """Two postings: the credits, and the dollars that back them."""
    rules, amount = planning.rules, request.amount
    ids = (planning.new_id(), planning.new_id())
    event, print_ = planning.new_id(), fingerprint(request)
    attempt = tried(request.key, print_)
    credit, dollars = _postings(request, rules, *ids)

    def decide(book: Book) -> Receipt:
        within_velocity(book, rules, "in", request.user, attempt, amount.minor)
        made, _ = book.post(credit), book.post(dollars)
        data = {"amount": str(amount), "source": request.source}
        publish(book, event, "credits.topped_up", subject=made.id, key=request.user, data=data)
        net = netted(book, made.id, (request.user,), credit.entries)
        postings = (made.id, dollars.id, *net)
        return Receipt(id=made.id, postings=postings, facts={"amount": str(amount)})

    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset(entry.account for entry in (*credit.entries, *dollars.entries)),
            perhaps=debts_of((request.user,)),
            attempts=velocity_need(rules, "in", request.user, attempt),
        ),
        key=request.key,
        fingerprint=print_,
    )


def _postings(
    request: TopUp, rules: Rules, first: str, second: str
) -> tuple[NewPosting, NewPosting]:
    minor, rates = request.amount.minor, rules.rates
    gross, backing = rates.buy.ceil(minor), rates.par.ceil(minor)
    ref = request.key if request.ref is None else request.ref
    credit = NewPosting(
        id=first,
        entries=(Entry(STORED_VALUE, minor), Entry(spendable(request.user), -minor)),
        meta={"kind": "topUp", "source": request.source, "rateId": rates.buy.id, "pair": second},
    )
    dollars = NewPosting(
        id=second,
        entries=(
            Entry(TRUST_CASH, backing),
            Entry(REVENUE_USD, gross - backing),
            Entry(USD_CLEARING, -gross),
        ),
        meta={
            "kind": "topUp",
            "rateId": rates.buy.id,
            "parRateId": rates.par.id,
            "pair": first,
            "ref": ref,  # what a processor's record is matched with
        },
    )
    return credit, dollars


FAMILY = Family(kind="topUp", check=check, plan=plan)
