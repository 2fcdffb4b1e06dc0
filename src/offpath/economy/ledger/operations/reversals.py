"""A posting undone by its exact opposite, and what follows from that for the rows beside it."""

from __future__ import annotations

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.anchors import proved_subscription
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.debts import debtors, turned
from offpath.economy.ledger.operations.ownership import revoke
from offpath.economy.ledger.operations.payouts import end_of
from offpath.economy.ledger.operations.plans import (
    Family,
    Further,
    Lookup,
    Planning,
    fingerprint,
)
from offpath.economy.ledger.operations.promo_returns import returning, sealed, who_gets_promo
from offpath.economy.ledger.operations.subscriptions import canceled
from offpath.economy.ledger.operations.undo_keys import (
    once,
    order_undone,
    posting_undone,
    undoing_key,
    undoing_keys,
)
from offpath.economy.ledger.rows import entitlement_key, moved
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.faults import ChainBroken, MalformedOperation, Unplanned
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import NewPosting, PostingRecord
from offpath.model.ledger.records import Receipt, SideKey, SideRow

_PAID_WITH_PROMO = ("spend", "subscribe", "promos.expiry")
"""Kinds of postings that take promo credits from a user."""


class Reverse(Struct, frozen=True, kw_only=True, gc=False, tag="reverse", tag_field="kind"):
    """A posting undone by one with every entry turned round, once. By operators and the system.

    Of a top-up and of a fee sweep, where credits and dollars move by a posting each, both are
    undone, whichever is named.

    The first payment of a subscription: it is canceled, and the thing is taken back unless a later
    period is paid. A clawback or a refund: its order can be taken back anew. A sale: its order
    cannot any more; what it gave stays owned. What reserved a payout or ended it is not undone so:
    see ``ReversePayout`` and ``Adjust``.
    """

    key: str
    actor: Actor
    posting_id: str
    reason: str


def check(request: Reverse, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.text(request.posting_id, "posting_id")
    checks.text(request.reason, "reason", checks.LONGEST_REASON)
    trusted_only(request.actor, "reverse postings")


def look(request: Reverse, rules: Rules) -> Lookup:  # noqa: ARG001 - as of every family
    """The posting names the accounts, and the rest that goes with it."""

    def further(_: SideRow | None, posting: PostingRecord | None) -> Further:
        order = _order(posting)
        undoing = () if order is None else (order_undone(order),)
        return Further(undoing=undoing, promos_of=who_gets_promo(_promo_part(posting)))

    return Lookup(posting=request.posting_id, further=further)


def plan(request: Reverse, planning: Planning) -> LedgerOp:
    """Once for each posting; a sale also shares the key of its refund."""
    original = planning.seen.posting
    reversing = _Reversing(request, planning)
    halves = [one for one in (original, planning.seen.pair) if one is not None]
    back = reversing.back
    needs = Needs(
        accounts=frozenset(link.account for half in halves for link in half.links).union(
            *map(_debtors, halves)  # whichever half was named, both are turned round
        ),
        sides=_sides(original),
        postings=frozenset((request.posting_id, *(half.id for half in halves))),
        keys=reversing.keys,
    )
    return LedgerOp(
        decide=reversing.decide,
        needs=needs if back is None else needs | back.needs(),
        key=request.key,
        fingerprint=fingerprint(request),
    )


class _Reversing:
    __slots__ = ("_event", "_new_id", "_pair_id", "_request", "_seen", "back", "keys")

    def __init__(self, request: Reverse, planning: Planning) -> None:
        self._request = request
        self._new_id = planning.new_id()
        self._event = planning.new_id()
        self._pair_id = planning.new_id()
        self._seen = seen = planning.seen
        self.back = returning(_promo_part(seen.posting), self._new_id, planning)
        """The promo credits that it gives back."""
        order = _order(seen.posting)
        keys = frozenset() if order is None else undoing_keys(order_undone(order), seen.undone_by)
        halves = {request.posting_id} | ({seen.pair.id} if seen.pair is not None else set())
        self.keys = keys | {posting_undone(one) for one in halves}
        """The keys by which it and others are done once."""

    def decide(self, book: Book) -> Receipt:
        """One posting, and what goes with it."""
        named = self._request.posting_id
        undoing = self._undoing(book)
        posting = _reversible(book.posting(named), named)
        if self._seen.posting is None:
            raise Unplanned(f"posting {named} was not there when its reversal was planned")
        if _granted(posting):
            _closed(book, posting.id)
        pair = self._pair(book, posting)
        self._turned(book, posting, self._new_id)
        made: tuple[str, ...] = (self._new_id,)
        facts = {"reverses": posting.id}
        if pair is not None:
            self._turned(book, pair, self._pair_id)
            made, facts = (self._new_id, self._pair_id), {**facts, "pair": pair.id}
        _ended(book, posting, self._event)
        receipt = Receipt(id=self._new_id, postings=made, facts=facts)
        for key in undoing:
            book.record(key, fingerprint(self._request), receipt, lasting=True)
        return receipt

    def _undoing(self, book: Book) -> list[str]:
        """The keys to record: also that of a sale's order, or a refund after it pays twice."""
        key, seen = posting_undone(self._request.posting_id), self._seen
        once(book, key)
        order = _order(seen.posting)
        keys = [key]
        if order is not None:
            keys.append(undoing_key(book, order_undone(order), seen.undone_by, "reverse"))
        if seen.pair is not None:
            once(book, posting_undone(seen.pair.id))
            keys.append(posting_undone(seen.pair.id))
        return keys

    def _pair(self, book: Book, posting: PostingRecord) -> PostingRecord | None:
        """The other half, which must be undone with this one: else credits stay without the dollars
        that back them, or dollars without credits.
        """
        named = posting.facts.get("pair")
        if isinstance(named, str):
            if self._seen.pair is None:
                raise ChainBroken(f"posting {posting.id} has its pair {named}, which is not there")
            return book.posting(named)
        if _kind(posting) == "fees.sweep":  # of a release that named it on one side only
            raise MalformedOperation(
                f"posting {posting.id} is half of a fee sweep: reverse the posting of its dollars, "
                "which names this one as its pair, and both are undone"
            )
        return None

    def _turned(self, book: Book, posting: PostingRecord, new_id: str) -> None:
        request, first = self._request, new_id == self._new_id
        granted = None if self.back is None or not first else self.back.granted(book)
        entries = turned(book, _kind(posting), _pairs(posting))
        meta = {
            "kind": "reverse",
            "reverses": posting.id,
            "reason": request.reason,
            "by": request.actor.id,
            **_matched(posting),
            **sealed(granted),
        }
        book.post(NewPosting(id=new_id, entries=entries, meta=meta))
        if granted is not None:
            book.put(granted)


def _reversible(posting: PostingRecord | None, posting_id: str) -> PostingRecord:
    if posting is None:
        raise MalformedOperation(f"there is no posting {posting_id!r} to reverse")
    kind = _kind(posting)
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
    if posting.id == end_of(str(posting.facts.get("sagaId"))):
        # The payout stays ended: its credits would lie in the reserve, where nothing takes them.
        raise MalformedOperation(
            f"posting {posting_id} ended a payout, which stays so: give its user what came back "
            "by an Adjust"
        )
    return posting


def _pairs(posting: PostingRecord) -> list[tuple[str, int]]:
    return [(one.account, one.amount) for one in posting.entries]


def _debtors(posting: PostingRecord) -> frozenset[str]:
    """The wallets that get back what paid a debt which is undone."""
    return debtors(_kind(posting), _pairs(posting))


def _kind(posting: PostingRecord | None) -> str | None:
    kind = None if posting is None else posting.facts.get("kind")
    return kind if isinstance(kind, str) else None


def _matched(posting: PostingRecord) -> dict[str, str]:
    """The reference that a processor's record of the money that goes back is matched with."""
    ref = posting.facts.get("ref")
    return {"ref": ref} if _kind(posting) == "topUp" and isinstance(ref, str) else {}


def _order(posting: PostingRecord | None) -> str | None:
    """The order of a sale."""
    return (
        None if posting is None or _kind(posting) != "spend" else str(posting.facts.get("orderId"))
    )


def _promo_part(posting: PostingRecord | None) -> list[tuple[str, int]]:
    """The entries of a posting that takes promo credits from somebody."""
    if posting is None or _kind(posting) not in _PAID_WITH_PROMO:
        return []
    return [(one.account, one.amount) for one in posting.entries]


def _sides(posting: PostingRecord | None) -> frozenset[SideKey]:
    """The rows that a posting made and that do not outlive it."""
    if posting is None:
        return frozenset()
    if _granted(posting):
        return frozenset((SideKey("promo", posting.id),))
    if _kind(posting) != "subscribe":
        return frozenset()
    facts = posting.facts
    thing = entitlement_key(str(facts.get("userId")), str(facts.get("sku")))
    return frozenset((SideKey("subscription", str(facts.get("subscriptionId"))), thing))


def _granted(posting: PostingRecord) -> bool:
    return _kind(posting) == "grantPromo" or "promoGrant" in posting.facts


def _closed(book: Book, grant: str) -> None:
    """A grant that is undone does not expire too: it would take the credits of another."""
    row = book.side("promo", grant)
    if row is None or row.state == "REVERSED":
        raise MalformedOperation(
            f"the promo {grant} has expired: what was left of it is taken back"
        )
    book.put(moved(row, book.posted_at, state="REVERSED", due_at=None))


def _ended(book: Book, posting: PostingRecord, event: str) -> None:
    """A subscription whose first payment is undone is renewed no more; the thing is owned on only
    where a later period was paid.
    """
    if _kind(posting) != "subscribe":
        return
    row = book.side("subscription", str(posting.facts.get("subscriptionId")))
    if row is None:
        return
    held = proved_subscription(row, posting)
    if row.state == "ACTIVE":
        canceled(book, row, held.sku, event)
    if held.number == 1:
        revoke(book, row.owner, held.sku, source=row.id)


FAMILY = Family(kind="reverse", check=check, look=look, plan=plan)
