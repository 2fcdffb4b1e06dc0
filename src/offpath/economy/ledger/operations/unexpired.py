"""Promo credits that may be spent: what a user holds, less what has ended and waits to be taken.

Spends are not tied to grants: a grant that ends takes what is there, up to its amount. A sweep does
that some time later; until then as much is held, but is nobody's to spend any more. So an operation
pays with the same promo credits before that sweep as after it.
"""

from __future__ import annotations

from typing import Final

from offpath.economy.ledger.anchors import proved_promo
from offpath.economy.ledger.operations.plans import Facts, Further, Lookup
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import promo
from offpath.model.ledger.faults import Unplanned
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.records import SideKey

UNTAKEN: Final = ("OPEN", "DEAD")
"""States of grants whose credits were not taken back."""


def look(user: str, *, pays: bool) -> Lookup | None:
    """The user's grants; nothing when no promo credits are to pay."""
    if not pays:
        return None
    grants = Further(promos_of=user, promo_states=UNTAKEN)
    return Lookup(further=lambda _side, _posting: grants)


def with_grants(needs: Needs, seen: Facts) -> Needs:
    """With the grants' rows, locked, and the postings that they are proved by."""
    if not seen.grants:
        return needs
    sides = frozenset([SideKey("promo", one) for one in seen.grants])
    return needs | Needs(sides=sides, postings=frozenset(seen.grants))


def promo_part(book: Book, user: str, price: int, seen: Facts, *, pays: bool) -> int:
    """The part of a price that promo credits pay.

    Raises ``Unplanned`` when there are some and nobody has looked which grants they are of: most
    users have none, and are planned without.
    """
    held = book.balance(promo(user)) if pays else 0
    if held and not seen.looked:
        raise Unplanned(f"{user} has promo credits, and it was not planned which ones")
    return min(price, max(0, held - _ended(book, seen))) if held else 0


def _ended(book: Book, seen: Facts) -> int:
    """The credits that grants take back that have ended. One that was given since they were looked
    up is too young for that.
    """
    total = 0
    for grant in seen.grants:
        row = book.side("promo", grant)
        if row is None or row.state not in UNTAKEN:
            continue
        if proved_promo(row, book.posting(grant)).expires_at <= book.now:
            total += row.amount or 0
    return total
