"""A posting on its own as an operation: what ``ctx.post`` and a caller's own transaction make."""

from __future__ import annotations

import hashlib

from offpath.model.ledger.book import Book
from offpath.model.ledger.deciding import LedgerOp
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import NewPosting, balanced, canonical
from offpath.model.ledger.records import Receipt


def posting_op(posting: NewPosting) -> LedgerOp:
    """The operation that makes this posting once, however often it is given.

    Raises, before anything is written, what :meth:`Book.post` raises for the posting's form.
    """
    entries, meta = balanced(posting.entries), canonical(posting.meta)
    parts = [f"{entry.account}={entry.amount}" for entry in entries]
    text = "\n".join([posting.id, *sorted(parts), meta])

    def decide(book: Book) -> Receipt:
        made = book.post(posting)
        return Receipt(id=made.id, postings=(made.id,))

    return LedgerOp(
        decide=decide,
        needs=Needs(accounts=frozenset(entry.account for entry in entries)),
        key=f"posting:{posting.id}",
        fingerprint=hashlib.sha256(text.encode()).hexdigest(),
    )
