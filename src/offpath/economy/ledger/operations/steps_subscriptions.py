"""The steps of the subscriptions sweep on single rows, fenced by version as payouts' are.

The receipt's facts have ``outcome``: ``charged``, ``lapsed``, ``deferred`` or ``retrying``.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from offpath.economy.ledger.anchors import proved_subscription
from offpath.economy.ledger.operations.debts import debts_of, netted
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.maturity import immature, lots_need
from offpath.economy.ledger.operations.ownership import grant, revoke
from offpath.economy.ledger.operations.steps_payouts import STALE, current
from offpath.economy.ledger.operations.subscriptions import grace_of, paid
from offpath.economy.ledger.periods import ahead
from offpath.economy.ledger.rows import SubscriptionBody, body, entitlement_key, moved
from offpath.economy.ledger.rules import NewId, Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import REVENUE, earned, spendable
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.faults import ChainBroken
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import NewPosting
from offpath.model.ledger.records import Receipt, SideRow

_AGAIN: Final = 3_600_000
"""Milliseconds from one look to the next at a wallet that does not cover a renewal."""


def renewal_key(subscription: str, number: int) -> str:
    """The key under which a period is paid once."""
    return f"sub:{subscription}:p{number}"


def subscription_renewed(
    row: SideRow, rules: Rules, new_id: NewId, *, now: int | None = None
) -> LedgerOp:
    """Charge the next period, or say why not, in one transaction.

    The period is claimed first. Too little money lapses it; money that is there but not mature
    yet puts it off until it is, and no attempt is counted. Raises ``ChainBroken`` when the row
    cannot be proved.
    """
    content = body(row, SubscriptionBody)
    posting, event, key = new_id(), new_id(), renewal_key(row.id, content.number + 1)

    def decide(book: Book) -> Receipt:
        if book.recorded(key) is not None:
            raise Declined(STALE, id=row.id)
        found = _active(book, row)
        held = proved_subscription(found, book.posting(found.anchor or ""))
        wallet = spendable(found.owner)
        if book.balance(wallet) < held.price:
            end = held.paid_until + grace_of(held, rules)
            if book.now < end:
                return _waiting(book, found, min(end, book.now + _AGAIN))
            return _lapsed(book, found, held, event, "INSUFFICIENT_FUNDS")
        if (waiting := immature(book, rules, wallet, held.price)) is not None:
            book.put(moved(found, found.touched_at, due_at=waiting.at))
            facts = {
                "outcome": "deferred",
                "code": "FUNDS_IMMATURE",
                "source": waiting.source,
                "available_at": waiting.at,
            }
            return Receipt(id=row.id, facts=facts)
        receipt = _charged(book, found, held, rules, (posting, event))
        book.record(key, row.id, receipt)
        return receipt

    needs = _needs(row, content)
    accounts = frozenset((spendable(row.owner), earned(content.seller), REVENUE))
    return LedgerOp(
        decide=decide,
        needs=replace(
            needs,
            accounts=accounts,
            perhaps=debts_of((content.seller,)),
            keys=frozenset((key,)),
            postings=frozenset((row.anchor or "",)),
            lots=lots_need(rules, spendable(row.owner)),
        ),
        now=now,
    )


def subscription_failed(
    row: SideRow, code: str, new_id: NewId, *, most: int, due_at: int, now: int | None = None
) -> LedgerOp:
    """Count a failed attempt and look again at ``due_at``; with ``most`` of them it lapses."""
    content, event = _readable(row), new_id()

    def decide(book: Book) -> Receipt:
        found, attempts = _active(book, row), row.attempts + 1
        if attempts >= most:
            return _lapsed(book, found, content, event, code)
        book.put(moved(found, found.touched_at, attempts=attempts, due_at=due_at))
        facts = {"outcome": "retrying", "code": code, "attempts": attempts}
        return Receipt(id=row.id, facts=facts)

    return LedgerOp(decide=decide, needs=_needs(row, content), now=now)


def subscription_lapsed(
    row: SideRow, code: str, new_id: NewId, *, now: int | None = None
) -> LedgerOp:
    """End it, as long as it is active and in the period that the row was leased in.

    Also for a row that cannot be proved: no money moves. A body that cannot be read is ended too,
    but then nobody knows what it gave, so nothing is revoked.
    """
    content, event = _readable(row), new_id()

    def decide(book: Book) -> Receipt:
        return _lapsed(book, _active(book, row), content, event, code)

    return LedgerOp(decide=decide, needs=_needs(row, content), now=now)


def _active(book: Book, row: SideRow) -> SideRow:
    found = current(book, row)
    if found.state != "ACTIVE":
        raise Declined(STALE, id=row.id)
    return found


def _readable(row: SideRow) -> SubscriptionBody | None:
    try:
        return body(row, SubscriptionBody)
    except ChainBroken:
        return None


def _needs(row: SideRow, content: SubscriptionBody | None) -> Needs:
    sides = {row.key}
    if content is not None:
        sides.add(entitlement_key(row.owner, content.sku))
    return Needs(sides=frozenset(sides))


def _charged(
    book: Book, row: SideRow, held: SubscriptionBody, rules: Rules, ids: tuple[str, str]
) -> Receipt:
    posting, event = ids
    paying = ahead(held, book.now, rules.zone_of)
    until, number = paying.until, paying.body.number
    price = money.text("CREDIT", held.price)
    meta = {
        "kind": "subscriptions.renew",
        "subscriptionId": row.id,
        "period": number,
        "price": price,
    }
    entries = paid(row.owner, held.seller, held.price, rules)
    book.post(NewPosting(id=posting, entries=entries, meta=meta))
    net = netted(book, posting, (held.seller,), entries)
    book.put(moved(row, book.posted_at, due_at=until, attempts=0, content=paying.body))
    owned_until = until + grace_of(held, rules)
    grant(book, row.owner, held.sku, source=row.id, expires_at=owned_until)
    data: dict[str, Any] = {
        "subscriptionId": row.id,
        "sku": held.sku,
        "price": price,
        "period": number,
        "nextDueAt": until,
    }
    publish(book, event, "subscription.renewed", subject=posting, key=row.owner, data=data)
    facts = {"outcome": "charged", "period": number, "paid_until": until}
    return Receipt(id=posting, postings=(posting, *net), facts=facts)


def _waiting(book: Book, row: SideRow, due_at: int) -> Receipt:
    """The money may still come: its grace is not over. No attempt is counted."""
    book.put(moved(row, row.touched_at, due_at=due_at))
    facts = {"outcome": "deferred", "code": "INSUFFICIENT_FUNDS", "available_at": due_at}
    return Receipt(id=row.id, facts=facts)


def _lapsed(
    book: Book, row: SideRow, held: SubscriptionBody | None, event: str, code: str
) -> Receipt:
    book.put(moved(row, book.posted_at, state="LAPSED", due_at=None, unique_key=None))
    data = {"subscriptionId": row.id}
    if held is not None:
        revoke(book, row.owner, held.sku, source=row.id)
        data["sku"] = held.sku
    publish(book, event, "subscription.lapsed", subject=row.id, key=row.owner, data=data)
    return Receipt(id=row.id, facts={"outcome": "lapsed", "code": code})
