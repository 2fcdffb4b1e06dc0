"""Clawing back: credits whose payment was disputed, and the dollars that the bank took with it."""

from __future__ import annotations

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.anchors import proved_sale
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.plans import (
    Family,
    Further,
    Lookup,
    Planning,
    fingerprint,
)
from offpath.economy.ledger.operations.undo_keys import (
    order_disputed,
    order_undone,
    undoing_key,
    undoing_keys,
)
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import (
    REVENUE_USD,
    STORED_VALUE,
    TRUST_CASH,
    USD_CLEARING,
    owed,
    spendable,
)
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt, SideKey


class Clawback(Struct, frozen=True, kw_only=True, gc=False, tag="clawback", tag_field="kind"):
    """Credits taken from a user since their payment was disputed; what they do not have any more is
    their debt. The order that it may be about stays sold, and can be refunded; one that was
    refunded before is answered with ``Duplicate``, ``undone_by`` refund. By operators and the
    system only.
    """

    key: str
    actor: Actor
    user: str
    amount: Money
    order_id: str | None = None
    """The order that the dispute is about, if it is about one: their own, and at most its price."""
    dollars: Money | None = None
    """The dollars that the bank took back."""
    fee: Money | None = None
    """The fee of the bank, in dollars: the platform's loss."""
    ref: str | None = None
    """The payment processor's name of the dispute, as of ``TopUp``; None: the key."""


def check(request: Clawback, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.user(request.user, "user")
    checks.amount(request.amount)
    if request.order_id is not None:
        checks.text(request.order_id, "order_id")
    if request.ref is not None:
        checks.text(request.ref, "ref", checks.LONGEST_KEY)
    for what, given in (("dollars", request.dollars), ("fee", request.fee)):
        if given is not None:
            checks.dollars(given, what)
    trusted_only(request.actor, "claw back")


def look(request: Clawback, rules: Rules) -> Lookup | None:  # noqa: ARG001 - as of every family
    """The sale of its order, and the disputes of it before."""
    if request.order_id is None:
        return None
    disputed = Further(undoing=_keys(request.order_id))
    return Lookup(side=SideKey("sale", request.order_id), further=lambda _side, _posting: disputed)


def plan(request: Clawback, planning: Planning) -> LedgerOp:
    """The posting of what the user holds, and a debt for the rest; with dollars a second posting.

    Declines ``UNKNOWN_ORDER``, ``NOT_THE_BUYER`` and ``ABOVE_PRICE``.
    """
    credit, dollars, event = planning.new_id(), planning.new_id(), planning.new_id()
    order, print_, seen = request.order_id, fingerprint(request), planning.seen
    keys = () if order is None else _keys(order)

    def decide(book: Book) -> Receipt:
        undoing = None
        if keys:
            _about(book, request)
        for key in keys:  # its own is the last
            undoing = undoing_key(book, key, seen.undone_by, "clawback")
        receipt = _taken(book, request, planning.rules, _ClawbackIds(credit, dollars, event))
        if undoing is not None:
            book.record(undoing, print_, receipt, lasting=True)
        return receipt

    anchor = None if seen.side is None else seen.side.anchor
    user = request.user
    house = (STORED_VALUE, TRUST_CASH, REVENUE_USD, USD_CLEARING)
    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset((spendable(user), owed(user), *house)),
            sides=frozenset(() if order is None else (SideKey("sale", order),)),
            postings=frozenset(() if anchor is None else (anchor,)),
            keys=frozenset().union(*[undoing_keys(key, seen.undone_by) for key in keys]),
        ),
        key=request.key,
        fingerprint=print_,
    )


def _keys(order: str) -> tuple[str, str]:
    """The keys under which the order may be undone, and disputed."""
    return order_undone(order), order_disputed(order)


class _ClawbackIds(Struct, frozen=True):
    credit: str
    dollars: str
    event: str


def _about(book: Book, request: Clawback) -> None:
    """Decline a dispute that is not about this user's order, or about more than they paid."""
    order = request.order_id or ""
    row = book.side("sale", order)
    if row is None:
        raise Declined("UNKNOWN_ORDER", orderId=order)
    sale = proved_sale(row, book.posting(row.anchor or ""))
    if row.owner != request.user:
        raise Declined("NOT_THE_BUYER", orderId=order, userId=request.user)
    if request.amount.minor > sale.price:
        price = money.text("CREDIT", sale.price)
        raise Declined("ABOVE_PRICE", orderId=order, price=price, amount=str(request.amount))


def _taken(book: Book, request: Clawback, rules: Rules, ids: _ClawbackIds) -> Receipt:
    user, amount = request.user, request.amount.minor
    held = min(amount, book.balance(spendable(user)))
    shown = {
        "amount": str(request.amount),
        "collected": money.text("CREDIT", held),
        "receivable": money.text("CREDIT", amount - held),
    }
    given = {"orderId": request.order_id, "dollars": request.dollars, "fee": request.fee}
    told = {name: str(one) for name, one in given.items() if one is not None}
    paid = _dollars(request, rules)
    pair = {"pair": ids.dollars} if paid else {}
    meta = {"kind": "clawback", "userId": user, **shown, **told, **pair}
    entries = (
        Entry(spendable(user), held),
        Entry(owed(user), amount - held),
        Entry(STORED_VALUE, -amount),
    )
    made = [book.post(NewPosting(id=ids.credit, entries=entries, meta=meta)).id]
    if paid:
        ref = request.key if request.ref is None else request.ref
        other = {"kind": "clawback", "userId": user, **told, "pair": ids.credit, "ref": ref}
        made.append(book.post(NewPosting(id=ids.dollars, entries=paid, meta=other)).id)
    data = {"userId": user, **shown, **told}
    publish(book, ids.event, "credits.clawed_back", subject=made[0], key=user, data=data)
    return Receipt(id=made[0], postings=tuple(made), facts=shown)


def _dollars(request: Clawback, rules: Rules) -> tuple[Entry, ...]:
    """A top-up's dollars turned round: what backed the credits, and the rest from revenue, which
    bears the fee too.
    """
    taken, fee = _minor(request.dollars), _minor(request.fee)
    backing = min(taken, rules.rates.par.floor(request.amount.minor))
    if not taken + fee:
        return ()
    entries = (
        Entry(USD_CLEARING, taken + fee),
        Entry(TRUST_CASH, -backing),
        Entry(REVENUE_USD, backing - taken - fee),
    )
    return tuple(entry for entry in entries if entry.amount)


def _minor(given: Money | None) -> int:
    return 0 if given is None else given.minor


FAMILY = Family(kind="clawback", check=check, look=look, plan=plan)
