"""Who owns what: granting and revoking, by operations of every kind."""

from __future__ import annotations

from offpath.ledger.rows import (
    EntitlementBody,
    body,
    encoded,
    entitlement_id,
    moved,
    owned,
)
from offpath.model.ledger.book import Book
from offpath.model.ledger.records import SideRow


def grant(book: Book, user: str, sku: str, *, source: str, expires_at: int | None) -> None:
    """Give a user a thing, also one that was revoked before.

    What he owns longer than that from elsewhere is left as it is: a subscription that is renewed
    must not shorten a purchase.
    """
    row = book.side("entitlement", entitlement_id(user, sku))
    if row is not None and _outlasts(row, source, expires_at, book.now):
        return
    content = EntitlementBody(sku=sku, source=source, expires_at=expires_at)
    if row is not None:
        book.put(moved(row, book.posted_at, state="OWNED", content=content))
        return
    book.put(
        SideRow(
            kind="entitlement",
            id=entitlement_id(user, sku),
            owner=user,
            state="OWNED",
            body=encoded(content),
        )
    )


def revoke(book: Book, user: str, sku: str, *, source: str | None = None) -> None:
    """Take a thing from a user: with ``source`` only when he has it from there."""
    row = book.side("entitlement", entitlement_id(user, sku))
    if row is None or row.state != "OWNED":
        return
    if source is None or body(row, EntitlementBody).source == source:
        book.put(moved(row, book.posted_at, state="REVOKED"))


def _outlasts(row: SideRow, source: str, expires_at: int | None, now: int) -> bool:
    if expires_at is None or not owned(row, now):
        return False
    has = body(row, EntitlementBody)
    return has.source != source and (has.expires_at is None or has.expires_at >= expires_at)
