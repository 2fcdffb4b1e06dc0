"""Ownership: granting and revoking, by operations of every kind.

Somebody may have a thing from several places: two orders, an order and a subscription. What is
refunded or lapses takes away only what came from there.
"""

from __future__ import annotations

from typing import Final

from offpath.economy.ledger.rows import (
    EntitlementBody,
    Title,
    body,
    encoded,
    entitlement_id,
    moved,
)
from offpath.model.ledger.book import Book
from offpath.model.ledger.records import SideRow

MOST: Final = 8
"""Titles to a thing that are told apart besides the best one; the weakest are forgotten."""


def grant(book: Book, user: str, sku: str, *, source: str, expires_at: int | None) -> None:
    """Give a user a thing, also one that was revoked before.

    What they own longer than that from elsewhere stays in front: a subscription that is renewed
    must not shorten a purchase.
    """
    row, given = book.side("entitlement", entitlement_id(user, sku)), Title(source, expires_at)
    if row is None:
        content = EntitlementBody(sku=sku, source=source, expires_at=expires_at)
        book.put(
            SideRow(
                kind="entitlement",
                id=entitlement_id(user, sku),
                owner=user,
                state="OWNED",
                body=encoded(content),
            )
        )
        return
    had = [one for one in _titles(row) if one.source != source and _valid(one, book.now)]
    content = _content(sku, [given, *had])
    if row.state == "OWNED" and content == body(row, EntitlementBody):
        return
    book.put(moved(row, book.posted_at, state="OWNED", content=content))


def revoke(book: Book, user: str, sku: str, *, source: str | None = None) -> None:
    """Take a thing from a user: with ``source`` only what they have from there."""
    row = book.side("entitlement", entitlement_id(user, sku))
    if row is None or row.state != "OWNED":
        return
    titles = _titles(row)
    kept = [] if source is None else [one for one in titles if one.source != source]
    if len(kept) == len(titles):
        return
    kept = [one for one in kept if _valid(one, book.now)]
    if kept:
        book.put(moved(row, book.posted_at, content=_content(sku, kept)))
    else:
        book.put(moved(row, book.posted_at, state="REVOKED", content=_alone(row)))


def _titles(row: SideRow) -> list[Title]:
    """The titles by which it is owned, the best first; none when it was revoked."""
    if row.state != "OWNED":
        return []
    content = body(row, EntitlementBody)
    return [Title(content.source, content.expires_at), *content.also]


def _valid(title: Title, now: int) -> bool:
    return title.expires_at is None or now <= title.expires_at


def _content(sku: str, titles: list[Title]) -> EntitlementBody:
    """The one that lasts longest is in front; of those that last as long, the first given."""
    best, *rest = sorted(titles, key=_ends, reverse=True)
    return EntitlementBody(
        sku=sku, source=best.source, expires_at=best.expires_at, also=tuple(rest[:MOST])
    )


def _ends(title: Title) -> float:
    return float("inf") if title.expires_at is None else title.expires_at


def _alone(row: SideRow) -> EntitlementBody:
    content = body(row, EntitlementBody)
    return EntitlementBody(sku=content.sku, source=content.source, expires_at=content.expires_at)
