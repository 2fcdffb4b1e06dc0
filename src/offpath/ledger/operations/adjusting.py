"""Corrections by hand: an account set right, and a posting undone."""

from __future__ import annotations

from msgspec import Struct

from offpath.ledger.actors import Actor, trusted_only
from offpath.ledger.operations import checks
from offpath.ledger.operations.planning import Family, Lookup, Planning, fingerprint
from offpath.ledger.operations.refunding import once, order_undone, posting_undone
from offpath.ledger.rows import moved
from offpath.ledger.rules import Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import LONGEST_ID, OPENING_EQUITY, chart
from offpath.model.ledger.deciding import LedgerOp
from offpath.model.ledger.faults import (
    CurrencyMismatch,
    InvalidAmount,
    MalformedOperation,
    Unplanned,
)
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting, PostingRecord
from offpath.model.ledger.records import Receipt, SideKey


class Adjust(Struct, frozen=True, kw_only=True, gc=False, tag="adjust", tag_field="kind"):
    """An account's balance moved by an amount of credits, against opening equity."""

    key: str
    actor: Actor
    account: str
    amount: Money
    """Above zero raises the balance, below zero lowers it."""
    reason: str


class Reverse(Struct, frozen=True, kw_only=True, gc=False, tag="reverse", tag_field="kind"):
    """A posting undone by one with every entry turned round. Rows of subscriptions, sales and what
    somebody owns stay as they are. What reserved a payout is not undone so: see ``ReversePayout``.
    """

    key: str
    actor: Actor
    posting_id: str
    reason: str


def check_adjust(request: Adjust, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant. Raises ``UnknownAccount``, ``CurrencyMismatch``."""
    amount = checks.money(request.amount, "amount")
    if not amount:
        raise InvalidAmount("an adjustment of zero adjusts nothing")
    known = chart(checks.text(request.account, "account", LONGEST_ID))
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


def check_reverse(request: Reverse, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.text(request.posting_id, "posting_id")
    checks.text(request.reason, "reason", checks.LONGEST_REASON)
    trusted_only(request.actor, "reverse postings")


def look_reverse(request: Reverse, rules: Rules) -> Lookup:  # noqa: ARG001 - as of every family
    """The posting names the accounts."""
    return Lookup(posting=request.posting_id)


def plan_reverse(request: Reverse, planning: Planning) -> LedgerOp:
    """Once for each posting; a sale also shares the key of its refund."""
    original, new_id, print_ = planning.seen.posting, planning.new_id(), fingerprint(request)
    names = _names(original, request.posting_id)
    grants = frozenset((SideKey("promo", request.posting_id),) if _granted(original) else ())

    def decide(book: Book) -> Receipt:
        for name in names:
            once(book, name)
        posting = _reversible(book.posting(request.posting_id), request.posting_id)
        if _names(posting, posting.id) != names:
            raise Unplanned(f"posting {posting.id} was not there when its reversal was planned")
        if _granted(posting):
            _closed(book, posting.id)
        entries = tuple(Entry(one.account, -one.amount) for one in posting.entries)
        meta = {
            "kind": "reverse",
            "reverses": posting.id,
            "reason": request.reason,
            "by": request.actor.id,
        }
        book.post(NewPosting(id=new_id, entries=entries, meta=meta))
        receipt = Receipt(id=new_id, postings=(new_id,), facts={"reverses": posting.id})
        for name in names:
            book.record(name, print_, receipt, lasting=True)
        return receipt

    links = () if original is None else original.links
    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset(link.account for link in links),
            sides=grants,
            postings=frozenset((request.posting_id,)),
            keys=frozenset(names),
        ),
        key=request.key,
        fingerprint=print_,
    )


def _names(original: PostingRecord | None, posting_id: str) -> tuple[str, ...]:
    """The keys it is undone under: also that of a sale's order, or a refund after it pays twice."""
    facts = {} if original is None else original.facts
    if facts.get("kind") == "spend":
        return (posting_undone(posting_id), order_undone(str(facts.get("orderId"))))
    return (posting_undone(posting_id),)


def _reversible(posting: PostingRecord | None, posting_id: str) -> PostingRecord:
    if posting is None:
        raise MalformedOperation(f"there is no posting {posting_id!r} to reverse")
    kind = posting.facts.get("kind")
    if kind == "reverse":
        raise MalformedOperation(
            f"posting {posting_id} is a reversal itself: make the posting that is meant"
        )
    if kind == "requestPayout":
        # All payouts are paid from one reserve: without its part this one takes another's.
        raise MalformedOperation(
            f"posting {posting_id} reserved the credits of a payout, which would be paid all the "
            "same: give a ReversePayout"
        )
    return posting


def _granted(posting: PostingRecord | None) -> bool:
    return posting is not None and posting.facts.get("kind") == "grantPromo"


def _closed(book: Book, grant: str) -> None:
    """A grant that is undone does not expire too: it would take the credits of another."""
    row = book.side("promo", grant)
    if row is None or row.state == "REVERSED":
        raise MalformedOperation(
            f"the promo {grant} has expired: what was left of it is taken back"
        )
    book.put(moved(row, book.posted_at, state="REVERSED", due_at=None))


ADJUST = Family(kind="adjust", check=check_adjust, plan=plan_adjust)
REVERSE = Family(kind="reverse", check=check_reverse, look=look_reverse, plan=plan_reverse)
