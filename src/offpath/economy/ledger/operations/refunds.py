"""Refunding: an order undone, for the buyer and for whoever earned from it.

What a seller does not hold any more they owe; what revenue does not, is receivable.
"""

from __future__ import annotations

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.anchors import proved_sale
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.debts import debts_of, netted
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.ownership import revoke
from offpath.economy.ledger.operations.plans import (
    Family,
    Further,
    Lookup,
    Planning,
    fingerprint,
)
from offpath.economy.ledger.operations.promo_returns import (
    PromoReturn,
    returning,
    sealed,
    who_gets_promo,
)
from offpath.economy.ledger.operations.spends import sale_source
from offpath.economy.ledger.operations.undo_keys import order_undone, undoing_key, undoing_keys
from offpath.economy.ledger.rows import SaleBody, body, entitlement_key
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import RECEIVABLE, REVENUE, chart, owed, spendable
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting, PostingRecord
from offpath.model.ledger.records import Receipt, SideKey, SideRow


class Refund(Struct, frozen=True, kw_only=True, gc=False, tag="refund", tag_field="kind"):
    """An order undone: the buyer gets all of it back. By operators and the system only."""

    key: str
    actor: Actor
    order_id: str


def check_refund(request: Refund, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.text(request.order_id, "order_id")
    trusted_only(request.actor, "refund")


def look_refund(request: Refund, rules: Rules) -> Lookup:  # noqa: ARG001 - as of every family
    """The sale names the accounts, and who gets promo credits back."""

    def further(row: SideRow | None, _: PostingRecord | None) -> Further:
        entries = () if row is None else body(row, SaleBody).entries
        return Further(undoing=(order_undone(request.order_id),), promos_of=who_gets_promo(entries))

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
        undoing = undoing_key(book, order_undone(order), seen.undone_by, "refund")
        sale = proved_sale(row, book.posting(row.anchor or ""))
        receipt = _undone(book, row, sale, posting_id, back)
        revoke(book, sale.recipient, sale.sku, source=sale_source(order))
        price = money.text("CREDIT", sale.price)
        data = {"orderId": order, "sku": sale.sku, "price": price}
        publish(book, event, "sale.refunded", subject=posting_id, key=row.owner, data=data)
        book.record(undoing, print_, receipt, lasting=True)
        return receipt

    needs = _refund_needs(seen.side, order, undoing_keys(order_undone(order), seen.undone_by))
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
    sellers = [chart(account) for account, _ in sale.entries]
    accounts |= debts_of(one.owner for one in sellers if one.kind == "earned")
    return Needs(
        accounts=frozenset(accounts),
        perhaps=debts_of((row.owner,)),
        sides=frozenset(sides),
        postings=frozenset((row.anchor or "",)),
        keys=keys,
    )


def _undone(
    book: Book, row: SideRow, sale: SaleBody, posting_id: str, promo: PromoReturn | None
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
        if missing:
            known = chart(account)
            entries.append(Entry(owed(known.owner) if known.wallet else RECEIVABLE, missing))
    shown = money.text("CREDIT", short)
    granted = None if promo is None else promo.granted(book)
    meta = {
        "kind": "refund",
        "orderId": row.id,
        "saleId": row.anchor,
        "receivable": shown,
        **sealed(granted),
    }
    made = book.post(NewPosting(id=posting_id, entries=tuple(entries), meta=meta))
    if granted is not None:
        book.put(granted)
    net = netted(book, made.id, (row.owner,), entries)
    facts = {"order_id": row.id, "receivable": shown}
    return Receipt(id=made.id, postings=(made.id, *net), facts=facts)


def _missing(book: Book, account: str, back: int) -> int:
    """The part of what is taken from a seller or from revenue that they do not hold any more."""
    known = chart(account)
    takes = known.kind == "earned" or account == REVENUE
    due = -known.change(back)
    if not takes or due <= 0:
        return 0
    return max(0, due - max(0, book.balance(account)))


FAMILY = Family(kind="refund", check=check_refund, look=look_refund, plan=plan_refund)
