"""The decision of a batch of operations: one after the other, on the book that the store loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from offpath.model.ledger.book import Book
from offpath.model.ledger.faults import KeyReused, LedgerError, OperationDeclined
from offpath.model.ledger.needs import Needs, Wanted, wanted
from offpath.model.ledger.records import Receipt


class Declined(Exception):
    """Raised in a decision: no, for this reason. Nothing of the operation stays but its attempts.

    ``fields`` are plain JSON values that go with the reason.
    """

    def __init__(self, reason: str, **fields: Any) -> None:  # noqa: ANN401 - JSON
        super().__init__(reason)
        self.reason = reason
        self.fields = fields


class Repeat(Exception):
    """Raised in a decision: that was done before, with this receipt. Nothing is written."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__("done before")
        self.receipt = receipt


class LedgerOp(Struct, frozen=True, kw_only=True):
    """One operation for :meth:`LedgerStore.post`: what it needs, and the pure rule that decides it.

    With a ``key``, the receipt is recorded under it when the operation commits, and a repeat gets
    that receipt; the same key with another ``fingerprint`` is refused (``KeyReused``).
    """

    decide: Callable[[Book], Receipt]
    needs: Needs = Needs()
    key: str | None = None
    fingerprint: str = ""
    headers: str = "{}"
    """The fields that its messages carry besides their own, as a JSON object of texts."""
    now: int | None = None
    """The time to decide by, in milliseconds; None: the store's clock."""


class OperationRefusal(NamedTuple):
    """The reason why an operation was declined."""

    reason: str
    fields: dict[str, Any]


class Decided(Struct, frozen=True, kw_only=True):
    """The outcome of an operation: exactly one of receipt, refusal and error is set."""

    receipt: Receipt | None = None
    duplicate: bool = False
    """The receipt is of an earlier time: nothing was written now."""
    refusal: OperationRefusal | None = None
    error: Exception | None = None
    """A fault of the operation alone; ``Unplanned`` when it has to be planned anew."""


def batch_wants(operations: Sequence[LedgerOp], now: int) -> Wanted:
    """The needs of a batch from the store, by the store's clock (milliseconds).

    What is to be locked does not depend on ``now``; windows do, and are to be asked for with the
    very time that goes into :class:`Loaded`: read after the last lock.
    """
    return wanted(
        [(op.needs, now if op.now is None else op.now) for op in operations],
        [op.key for op in operations if op.key is not None],
    )


def decide_all(book: Book, operations: Sequence[LedgerOp]) -> list[Decided]:
    """Decide each on the book, in order. Never raises for what one operation does wrong."""
    return [_decided(book, op) for op in operations]


def decide_together(book: Book, operations: Sequence[LedgerOp]) -> list[Receipt]:
    """Decide all of them or none, as effects are: the receipts, in order.

    Raises what :func:`raised_by` raises for the first one that does not go, and the book is as it
    was before.
    """
    kept, went = book.begin(None), False
    try:
        receipts = [raised_by(_decided(book, op)) for op in operations]
        went = True
        return receipts
    finally:
        book.end(kept, undo=not went)


def _decided(book: Book, op: LedgerOp) -> Decided:
    kept, went = book.begin(op.now), False
    book.headers = op.headers
    try:
        decided = _tried(book, op)
        went = True
        return decided
    except Declined as declined:
        return Decided(refusal=OperationRefusal(declined.reason, declined.fields))
    except Repeat as repeat:
        return Decided(receipt=repeat.receipt, duplicate=True)
    except Exception as error:  # noqa: BLE001 - an error of one decision is its own
        return Decided(error=error)
    finally:
        book.end(kept, undo=not went)


def _tried(book: Book, op: LedgerOp) -> Decided:
    if op.key is None:
        return Decided(receipt=op.decide(book))
    if (known := book.key(op.key)) is not None:
        if known.fingerprint != op.fingerprint:
            raise KeyReused(
                f"the key {op.key!r} was used for another operation: a new one needs a new key"
            )
        return Decided(receipt=known.receipt, duplicate=True)
    receipt = op.decide(book)
    book.record(op.key, op.fingerprint, receipt)
    return Decided(receipt=receipt)


def raised_by(decided: Decided) -> Receipt:
    """The receipt; raises what went wrong, as a ``LedgerError`` in any case.

    For who cannot go on without the posting.
    """
    if decided.error is not None:
        if isinstance(decided.error, LedgerError):
            raise decided.error
        raised = type(decided.error).__name__
        raise LedgerError(f"an operation cannot be decided: {raised}") from decided.error
    if decided.refusal is not None:
        # Its fields tell who has how much: this text goes to where errors go.
        reason = decided.refusal.reason
        raise OperationDeclined(f"the operation was declined: {reason}", reason=reason)
    if decided.receipt is None:
        raise LedgerError("the store gave no answer to an operation")
    return decided.receipt
