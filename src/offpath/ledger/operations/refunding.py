"""Taking back: refunds of orders, and clawbacks of credits whose payment was disputed.

Both of one order share the key ``reversed:order:<order>``: whichever comes second gets the first
one's receipt, so a dispute of what was refunded takes nothing twice. When that posting is itself
reversed the order is as it was before, and the next one has the key ``reversed:again:<posting>``.
These keys outlive every ``keep_keys``: nothing else says that an order was undone.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from offpath.ledger.actors import Actor, trusted_only
from offpath.ledger.anchors import proved_sale
from offpath.ledger.operations import checks
from offpath.ledger.operations.events import publish
from offpath.ledger.operations.granting import revoke
from offpath.ledger.operations.planning import (
    Family,
    Further,
    Lookup,
    Planning,
    fingerprint,
)
from offpath.ledger.operations.returning import Returning, returning, sealed, who_gets_promo
from offpath.ledger.operations.spending import sale_source
from offpath.ledger.rows import SaleBody, body, entitlement_key
from offpath.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import RECEIVABLE, REVENUE, STORED_VALUE, chart, spendable
from offpath.model.ledger.deciding import Declined, LedgerOp, Repeat
from offpath.model.ledger.faults import Unplanned
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting, PostingRecord
from offpath.model.ledger.records import Receipt, SideKey, SideRow


class Refund(Struct, frozen=True, kw_only=True, gc=False, tag="refund", tag_field="kind"):
    """An order undone: the buyer gets all of it back. By operators and the system only."""

    key: str
    actor: Actor
    order_id: str


class Clawback(Struct, frozen=True, kw_only=True, gc=False, tag="clawback", tag_field="kind"):
    """Credits taken from a user since their payment was disputed; what he does not have any more
    is owed to the platform. By operators and the system only.
    """

    key: str
    actor: Actor
    user: str
    amount: Money
    order_id: str | None = None
    """The order that the dispute is about, if it is about one."""


def order_undone(order: str) -> str:
    """The key that an order can be undone under once; no order's id makes it a posting's."""
    return f"reversed:order:{order}"


def posting_undone(posting: str) -> str:
    """The key that a posting can be undone under once."""
    return f"reversed:posting:{posting}"


def order_again(posting: str) -> str:
    """The key that an order can be undone under once this posting, which undid it, is undone."""
    return f"reversed:again:{posting}"


def undoing_keys(order: str, undone_by: Sequence[str]) -> frozenset[str]:
    """What is asked for to undo an order, of which it is known what undid it so far."""
    again = (key(one) for one in undone_by for key in (posting_undone, order_again))
    return frozenset((order_undone(order), *again))


def undoing_key(book: Book, order: str, undone_by: Sequence[str]) -> str:
    """The key that an order can be undone under now.

    Raises ``Repeat`` with what undid it already, and ``Unplanned`` when that was not known yet.
    """
    key = order_undone(order)
    for posting in undone_by:
        before = book.recorded(key)
        if before is None or before.id != posting:
            break
        if book.recorded(posting_undone(posting)) is None:
            raise Repeat(before)
        key = order_again(posting)
    if book.recorded(key) is not None:
        raise Unplanned(f"the order {order} was undone since this was planned")
    return key


def once(book: Book, undone: str) -> None:
    """Give again what undid it before. Raises ``Repeat``."""
    if (before := book.recorded(undone)) is not None:
        raise Repeat(before)


def check_refund(request: Refund, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.text(request.order_id, "order_id")
    trusted_only(request.actor, "refund")


def look_refund(request: Refund, rules: Rules) -> Lookup:  # noqa: ARG001 - as of every family
    """The sale names the accounts, and who gets promo credits back."""

    def further(row: SideRow | None, _: PostingRecord | None) -> Further:
        entries = () if row is None else body(row, SaleBody).entries
        return Further(order=request.order_id, promos_of=who_gets_promo(entries))

    return Lookup(side=SideKey("sale", request.order_id), further=further)


def plan_refund(request: Refund, planning: Planning) -> LedgerOp:
    """The sale's entries turned round, as far as sellers and revenue still hold them."""
    posting_id, event = planning.new_id(), planning.new_id()
    order, print_, seen = request.order_id, fingerprint(request), planning.seen
    back = None if seen.side is None else returning(_sold(seen.side), posting_id, planning)

    def decide(book: Book) -> Receipt:
        row = book.side("sale", order)
        if row is None:
            raise Declined("UNKNOWN_ORDER", orderId=order)
        undoing = undoing_key(book, order, seen.undone_by)
        sale = proved_sale(row, book.posting(row.anchor or ""))
        receipt = _undone(book, row, sale, posting_id, back)
        revoke(book, sale.recipient, sale.sku, source=sale_source(order))
        price = money.text("CREDIT", sale.price)
        data = {"orderId": order, "sku": sale.sku, "price": price}
        publish(book, event, "sale.refunded", subject=posting_id, key=row.owner, data=data)
        book.record(undoing, print_, receipt, lasting=True)
        return receipt

    needs = _refund_needs(seen.side, order, undoing_keys(order, seen.undone_by))
    return LedgerOp(
        decide=decide,
        needs=needs if back is None else needs | back.needs(),
        key=request.key,
        fingerprint=print_,
    )


def _sold(row: SideRow) -> tuple[tuple[str, int], ...]:
    return body(row, SaleBody).entries


def _refund_needs(row: SideRow | None, order: str, keys: frozenset[str]) -> Needs:
    sides = {SideKey("sale", order)}
    if row is None:
        return Needs(sides=frozenset(sides), keys=keys)
    sale = body(row, SaleBody)
    sides.add(entitlement_key(sale.recipient, sale.sku))
    accounts = {account for account, _ in sale.entries} | {RECEIVABLE, spendable(row.owner)}
    return Needs(
        accounts=frozenset(accounts),
        sides=frozenset(sides),
        postings=frozenset((row.anchor or "",)),
        keys=keys,
    )


def _undone(
    book: Book, row: SideRow, sale: SaleBody, posting_id: str, promo: Returning | None
) -> Receipt:
    folded: dict[str, int] = {}
    for account, amount in sale.entries:
        folded[account] = folded.get(account, 0) + amount
    entries, short = [], 0
    for account, amount in sorted(folded.items()):
        back = -amount
        missing = _missing(book, account, back)
        short += missing
        entries.append(Entry(account, back - missing))
    entries.append(Entry(RECEIVABLE, short))
    owed = money.text("CREDIT", short)
    granted = None if promo is None else promo.granted(book)
    meta = {
        "kind": "refund",
        "orderId": row.id,
        "saleId": row.anchor,
        "receivable": owed,
        **sealed(granted),
    }
    made = book.post(NewPosting(id=posting_id, entries=tuple(entries), meta=meta))
    if granted is not None:
        book.put(granted)
    facts = {"order_id": row.id, "receivable": owed}
    return Receipt(id=made.id, postings=(made.id,), facts=facts)


def _missing(book: Book, account: str, back: int) -> int:
    """How much of what is taken from a seller or from revenue they do not hold any more."""
    known = chart(account)
    takes = known.kind == "earned" or account == REVENUE
    due = -known.change(back)
    if not takes or due <= 0:
        return 0
    return max(0, due - max(0, book.balance(account)))


def check_clawback(request: Clawback, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.user(request.user, "user")
    checks.amount(request.amount)
    if request.order_id is not None:
        checks.text(request.order_id, "order_id")
    trusted_only(request.actor, "claw back")


def look_clawback(request: Clawback, rules: Rules) -> Lookup | None:  # noqa: ARG001 - as of every family
    """What undid its order before, if it is about one."""
    if request.order_id is None:
        return None
    order = Further(order=request.order_id)
    return Lookup(further=lambda _side, _posting: order)


def plan_clawback(request: Clawback, planning: Planning) -> LedgerOp:
    """What the user holds, and a receivable for the rest."""
    posting_id, event = planning.new_id(), planning.new_id()
    order, print_, before = request.order_id, fingerprint(request), planning.seen.undone_by

    def decide(book: Book) -> Receipt:
        undoing = None if order is None else undoing_key(book, order, before)
        receipt = _taken(book, request, posting_id, event)
        if undoing is not None:
            book.record(undoing, print_, receipt, lasting=True)
        return receipt

    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset((spendable(request.user), RECEIVABLE, STORED_VALUE)),
            keys=frozenset() if order is None else undoing_keys(order, before),
        ),
        key=request.key,
        fingerprint=print_,
    )


def _taken(book: Book, request: Clawback, posting_id: str, event: str) -> Receipt:
    wallet, amount = spendable(request.user), request.amount.minor
    held = min(amount, book.balance(wallet))
    shown = {
        "amount": str(request.amount),
        "collected": money.text("CREDIT", held),
        "receivable": money.text("CREDIT", amount - held),
    }
    order = {} if request.order_id is None else {"orderId": request.order_id}
    meta = {"kind": "clawback", "userId": request.user, **shown, **order}
    entries = (
        Entry(wallet, held),
        Entry(RECEIVABLE, amount - held),
        Entry(STORED_VALUE, -amount),
    )
    made = book.post(NewPosting(id=posting_id, entries=entries, meta=meta))
    data = {"userId": request.user, **shown, **order}
    publish(book, event, "credits.clawed_back", subject=made.id, key=request.user, data=data)
    return Receipt(id=made.id, postings=(made.id,), facts=shown)


REFUND = Family(kind="refund", check=check_refund, look=look_refund, plan=plan_refund)
CLAWBACK = Family(kind="clawback", check=check_clawback, look=look_clawback, plan=plan_clawback)
