"""The keys of what is undone once: those under which orders and postings are taken back.

A ``Refund`` of an order and a ``Reverse`` of its sale share the key ``reversed:order:<order>``:
whichever comes second gets the first one's receipt. A ``Clawback`` of an order that is undone so is
answered likewise: its credits were given back already. Itself it has the key
``reversed:dispute:<order>``, for what a bank takes of a buyer's payment says nothing of who is to
give back what the sale gave: the order can be refunded all the same. When what undid it is itself
reversed all is as it was before, and the next one has the key ``reversed:again:<posting>``. These
keys outlive every ``keep_keys``: nothing else says that an order was undone.
"""

from __future__ import annotations

from msgspec.structs import replace

from offpath.economy.ledger.operations.plans import Undone
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Repeat
from offpath.model.ledger.faults import Unplanned
from offpath.model.ledger.records import Receipt


def order_undone(order: str) -> str:
    """The key that an order can be undone under once; no order's id makes it a posting's."""
    return f"reversed:order:{order}"


def order_disputed(order: str) -> str:
    """The key that the payment of an order can be clawed back under once."""
    return f"reversed:dispute:{order}"


def posting_undone(posting: str) -> str:
    """The key that a posting can be undone under once."""
    return f"reversed:posting:{posting}"


def again(posting: str) -> str:
    """The key for the next time, once this posting is undone, which undid it before."""
    return f"reversed:again:{posting}"


def undoing_keys(first: str, undone_by: Undone) -> frozenset[str]:
    """The keys to ask for, to undo the posting with this key first, when ``undone_by`` is known to
    have undone it so far.
    """
    before = undone_by.get(first, ())
    later = (key(one) for one in before for key in (posting_undone, again))
    return frozenset((first, *later))


def undoing_key(book: Book, first: str, undone_by: Undone, kind: str) -> str:
    """The key that it can be undone under now, by an operation of this kind.

    Raises ``Repeat`` with what undid it already, and ``Unplanned`` when that was not known yet.
    """
    key = first
    for posting in undone_by.get(first, ()):
        before = book.recorded(key)
        if before is None or before.id != posting:
            break
        if book.recorded(posting_undone(posting)) is None:
            raise Repeat(_told(before, kind))
        key = again(posting)
    if book.recorded(key) is not None:
        raise Unplanned(f"{first} was undone since this was planned")
    return key


def once(book: Book, undone: str) -> None:
    """Give again what undid it before. Raises ``Repeat``."""
    if (before := book.recorded(undone)) is not None:
        raise Repeat(before)


def _told(before: Receipt, kind: str) -> Receipt:
    """The receipt of what undid it; with ``undone_by`` when that was another kind of operation."""
    by = "refund"
    if "reverses" in before.facts:
        by = "reverse"
    elif "collected" in before.facts:
        by = "clawback"
    return before if by == kind else replace(before, facts={**before.facts, "undone_by": by})
