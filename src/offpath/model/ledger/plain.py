"""A posting on its own as an operation: what ``ctx.post`` and a caller's own transaction make."""

from __future__ import annotations

import hashlib

from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import LedgerOp, Repeat
from offpath.model.ledger.faults import KeyReused, MalformedOperation
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import (
    Entry,
    NewPosting,
    PostingRecord,
    balanced,
    canonical,
    identified,
)
from offpath.model.ledger.records import Receipt


def posting_op(posting: NewPosting) -> LedgerOp:
    """The operation that makes this posting once, however often it is given.

    Raises, before anything is written, what :meth:`Book.post` raises for the posting's form. Its
    idempotency key may be pruned: the posting itself stands in for it then.
    """
    identified(posting.id)
    entries, meta = balanced(posting.entries), canonical(posting.meta)
    text = _content(posting.id, entries, meta)

    def decide(book: Book) -> Receipt:
        if (known := book.posting(posting.id)) is not None:
            raise _repeated(known, text)
        made = book.post(posting)
        return Receipt(id=made.id, postings=(made.id,))

    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset(entry.account for entry in entries),
            postings=frozenset((posting.id,)),
        ),
        key=f"posting:{posting.id}",
        fingerprint=hashlib.sha256(text.encode()).hexdigest(),
    )


def operation_of(given: NewPosting | LedgerOp) -> LedgerOp:
    """The operation that is meant. Raises as :func:`posting_op`, and for what is neither."""
    if isinstance(given, NewPosting):
        return posting_op(given)
    if not isinstance(given, LedgerOp):
        raise MalformedOperation(
            f"give a NewPosting or an operation that was prepared, not {type(given).__name__}"
        )
    return given


def _content(posting: str, entries: tuple[Entry, ...], meta: str) -> str:
    return "\n".join([posting, *sorted(f"{one.account}={one.amount}" for one in entries), meta])


def _repeated(known: PostingRecord, text: str) -> Exception:
    if _content(known.id, known.entries, known.meta) == text:
        return Repeat(Receipt(id=known.id, postings=(known.id,)))
    return KeyReused(f"the id {known.id!r} is that of another posting: a new one needs a new id")
