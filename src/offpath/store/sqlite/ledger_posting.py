"""Operations of the ledger, without I/O: loaded, decided, written, the same on every connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from offpath.errors import StoreBusy
from offpath.model.ledger.book import Book
from offpath.model.ledger.changes import Changes, SideChange
from offpath.model.ledger.decision import (
    Decided,
    LedgerOp,
    batch_wants,
    decide_all,
    decide_together,
)
from offpath.model.ledger.requested import END
from offpath.store.programs.dialect import Queries
from offpath.store.sql import Query
from offpath.store.sqlite import ledger_rows as rows
from offpath.store.sqlite.ledger_loading import load_steps
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL
from offpath.store.sqlite.writing import Writing

MILLISECOND: Final = 1_000
"""Microseconds, in which the store's clock counts."""


class PostedOperations(NamedTuple):
    """The outcome of operations, and a mark if they wrote messages."""

    decided: list[Decided]
    stirred: bool


def post_steps(operations: Sequence[LedgerOp], now: int) -> Queries[PostedOperations]:
    """Decide operations in order at ``now`` (microseconds), and write what they did."""
    book = yield from _book_steps(operations, now)
    decided = decide_all(book, operations)
    changes = book.changes()
    yield from _write_steps(changes, now)
    return PostedOperations(decided, bool(changes.messages))


def together_steps(operations: Sequence[LedgerOp], now: int) -> Queries[bool]:
    """All of them or none, as effects are; whether they wrote messages.

    Raises ``LedgerError`` for one that is declined or faulty, and has then written nothing.
    """
    book = yield from _book_steps(operations, now)
    decide_together(book, operations)
    changes = book.changes()
    yield from _write_steps(changes, now)
    return bool(changes.messages)


def _book_steps(operations: Sequence[LedgerOp], now: int) -> Queries[Book]:
    at = now // MILLISECOND
    return Book((yield from load_steps(batch_wants(operations, at), at)))


def _write_steps(changes: Changes, now: int) -> Queries[None]:
    """Write what a book has changed, in bulk."""
    writing = Writing(changes.messages, (), now) if changes.messages else None
    if changes.postings:
        yield from _posting_steps(changes)
    if changes.sides:
        yield from _side_steps(changes.sides)
    if changes.keys:
        yield _add("ledger_key_add", map(rows.key_columns, changes.keys))
    if changes.attempts:
        yield _add("ledger_attempt_add", map(rows.attempt_columns, changes.attempts))
    for move in changes.attempt_moves:
        yield SQL["ledger_attempts_fall"](subject=move.subject, key=move.key)
        yield SQL["ledger_attempt_move"](subject=move.subject, key=move.key, at=move.at)
    if writing is not None:
        yield from writing.steps()


def _posting_steps(changes: Changes) -> Queries[None]:
    new = [rows.new_account(one.account.id) for one in changes.accounts if one.was == 0]
    if new:
        yield _add("ledger_account_add", new)
    if ends := [one.id for one in changes.postings if one.id.endswith(END)]:
        yield SQL["ledger_posting_bare"](ids=batch(ends))
    numbered = enumerate(changes.postings, 1)
    drafts = (draft for number, posting in numbered for draft in rows.drafts(number, posting))
    yield SQL["ledger_draft_clear"]()
    yield _add("ledger_draft_add", drafts)
    yield _add("ledger_posting_add", map(rows.sealed, changes.postings))


def _side_steps(changes: Sequence[SideChange]) -> Queries[None]:
    changed = [(*rows.side_columns(one.row), one.was) for one in changes if one.was]
    if changed and any(one.row.unique_key is not None for one in changes):
        yield _add("ledger_side_release", changed)
    if changed and len((yield _add("ledger_side_change", changed))) < len(changed):
        message = "somebody else has written a row of the ledger meanwhile: do it again"
        raise StoreBusy(message)
    new = [rows.side_columns(one.row) for one in changes if not one.was]
    if new:
        yield _add("ledger_side_add", new)


def _add(name: str, some: Iterable[Any]) -> Query:
    return SQL[name](batch=batch(some))
