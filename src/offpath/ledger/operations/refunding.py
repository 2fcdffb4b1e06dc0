"""Taking back: refunds of orders, and clawbacks of credits whose payment was disputed.

Both of one order share the key ``reversed:order:<order>``: whichever comes second gets the first
one's receipt, so a dispute of what was refunded takes nothing twice. These keys outlive every
``keep_keys``: nothing else says that an order was undone.
"""

from __future__ import annotations

from msgspec import Struct

from offpath.ledger.actors import Actor, trusted_only
from offpath.ledger.anchors import proved_sale
from offpath.ledger.operations import checks
from offpath.ledger.operations.events import publish
from offpath.ledger.operations.granting import revoke
from offpath.ledger.operations.planning import Family, Lookup, Planning, fingerprint
from offpath.ledger.operations.spending import sale_source
from offpath.ledger.rows import SaleBody, body, entitlement_key
from offpath.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import RECEIVABLE, REVENUE, STORED_VALUE, chart, spendable
from offpath.model.ledger.deciding import Declined, LedgerOp, Repeat
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
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


def once(book: Book, undone: str) -> None:
    """Give again what undid it before. Raises ``Repeat``."""
    if (before := book.recorded(undone)) is not None:
        raise Repeat(before)


def check_refund(request: Refund, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.text(request.order_id, "order_id")
    trusted_only(request.actor, "refund")


def look_refund(request: Refund, rules: Rules) -> Lookup:  # noqa: ARG001 - as of every family
    """The sale names the accounts."""
    return Lookup(side=SideKey("sale", request.order_id))


def plan_refund(request: Refund, planning: Planning) -> LedgerOp:
    """The sale's entries turned round, as far as sellers and revenue still hold them."""
    posting_id, event = planning.new_id(), planning.new_id()
    order, print_ = request.order_id, fingerprint(request)

    def decide(book: Book) -> Receipt:
        row = book.side("sale", order)
        if row is None:
            raise Declined("UNKNOWN_ORDER", orderId=order)
        once(book, order_undone(order))
        sale = proved_sale(row, book.posting(row.anchor or ""))
        receipt = _undone(book, row, sale, posting_id)
        revoke(book, sale.recipient, sale.sku, source=sale_source(order))
        price = money.text("CREDIT", sale.price)
        data = {"orderId": order, "sku": sale.sku, "price": price}
        publish(book, event, "sale.refunded", subject=posting_id, key=row.owner, data=data)
        book.record(order_undone(order), print_, receipt, lasting=True)
        return receipt

    return LedgerOp(
        decide=decide,
        needs=_refund_needs(planning.seen.side, order),
        key=request.key,
        fingerprint=print_,
    )


def _refund_needs(row: SideRow | None, order: str) -> Needs:
    sides, keys = {SideKey("sale", order)}, frozenset((order_undone(order),))
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


def _undone(book: Book, row: SideRow, sale: SaleBody, posting_id: str) -> Receipt:
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
    meta = {
        "kind": "refund",
        "orderId": row.id,
        "saleId": row.anchor,
        "receivable": owed,
    }
    made = book.post(NewPosting(id=posting_id, entries=tuple(entries), meta=meta))
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


def plan_clawback(request: Clawback, planning: Planning) -> LedgerOp:
    """What the user holds, and a receivable for the rest."""
    posting_id, event = planning.new_id(), planning.new_id()
    order, print_ = request.order_id, fingerprint(request)

    def decide(book: Book) -> Receipt:
        if order is not None:
            once(book, order_undone(order))
        receipt = _taken(book, request, posting_id, event)
        if order is not None:
            book.record(order_undone(order), print_, receipt, lasting=True)
        return receipt

    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset((spendable(request.user), RECEIVABLE, STORED_VALUE)),
            keys=frozenset() if order is None else frozenset((order_undone(order),)),
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
CLAWBACK = Family(kind="clawback", check=check_clawback, plan=plan_clawback)
