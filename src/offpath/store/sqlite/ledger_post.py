"""Operations of a ledger without I/O: loaded, decided, written, the same on every connection.

This is SQLite's own and no program of both databases. Whoever runs it has the write lock, so it
locks nothing, and what it reads cannot change before the commit; on Postgres the locks and the
reads behind them are the work. Both are the hot path of the money.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import astuple

from offpath.errors import StoreBusy
from offpath.model.ledger.book import Book, Loaded
from offpath.model.ledger.changes import Changes, SideChange
from offpath.model.ledger.chart import chart
from offpath.model.ledger.decision import (
    Decided,
    LedgerOp,
    batch_wants,
    decide_all,
    decide_together,
)
from offpath.model.ledger.needs import Wanted
from offpath.model.ledger.posting import MOST_ACCOUNTS, PostingRecord
from offpath.model.ledger.records import (
    AccountRecord,
    KeyRecord,
    Lot,
    MoveAttempt,
    SideKey,
    SideRow,
)
from offpath.model.ledger.requested import END
from offpath.model.ledger.trims import Retired
from offpath.store.programs.dialect import Queries
from offpath.store.programs.ledger_reads import (
    key_record,
    posted,
    records,
    retired_rows,
    summed,
)
from offpath.store.sql import Query, Row
from offpath.store.sqlite.mailbox import Writing
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL

MILLISECOND: Final = 1_000
"""Microseconds, in which the store's clock counts."""

_PLACES: Final = MOST_ACCOUNTS
"""Ids of links for each posting."""
_SPENT: Final = ":spendable"

_encode: Final = msgspec.json.Encoder().encode


class PostedOperations(NamedTuple):
    """The outcome of operations, and a mark if they wrote messages."""

    decided: list[Decided]
    stirred: bool


def post_steps(operations: Sequence[LedgerOp], now: int) -> Queries[PostedOperations]:
    """Decide operations in order at ``now`` (microseconds), and write what they did."""
    # Read, decided and written in one go, under the write lock: what was read is true until the
    # commit.
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


# -- reading ---------------------------------------------------------------------------------


def _book_steps(operations: Sequence[LedgerOp], now: int) -> Queries[Book]:
    at = now // MILLISECOND
    return Book((yield from _load_steps(batch_wants(operations, at), at)))


def _load_steps(wanted: Wanted, now: int) -> Queries[Loaded]:
    """Read all that is wanted; ``now`` is the store's clock in milliseconds."""
    accounts = yield from _asked("ledger_accounts_of", ids=wanted.accounts)
    sides = yield from _asked("ledger_sides_of", wanted=wanted.sides)
    sides += yield from _asked("ledger_holders_of", wanted=wanted.holders)
    postings, gone = yield from _postings_steps(wanted.postings)
    keys = yield from _asked("ledger_keys_of", keys=wanted.keys)
    raised = yield from _asked("ledger_raised_of", wanted=wanted.raised)
    attempts = yield from _asked("ledger_attempts_of", wanted=wanted.attempts)
    attempted = yield from _asked("ledger_attempted_of", wanted=wanted.attempted)
    newest = yield from _newest_steps(wanted.newest)
    lots = yield from _lots_steps(wanted.lots)
    subjects = sorted({subject for subject, _ in wanted.attempted})
    latest = yield from _asked("ledger_subjects_of", subjects=subjects)
    return Loaded(
        wanted=wanted,
        now=now,
        accounts=tuple(_accounts(accounts)),
        sides=tuple({row.key: row for row in records(SideRow, sides)}.values()),
        newest=tuple(records(SideRow, newest)),
        postings=tuple(postings),
        retired=tuple(gone),
        keys=tuple(map(key_record, keys)),
        lots=lots,
        raised=_sums(wanted.raised, raised),
        attempts=_sums(wanted.attempts, attempts),
        attempted={(subject, key): at for subject, key, at in attempted},
        subjects={one.subject: one for one in records(MoveAttempt, latest)},
        totals=summed((yield SQL["ledger_totals"]())) if wanted.totals else None,
    )


def _asked(name: str, **wanted: Sequence[Any]) -> Queries[list[Row]]:
    """The rows of a statement with one parameter; it is not sent when nothing is wanted."""
    ((parameter, values),) = wanted.items()
    return list((yield SQL[name](**{parameter: batch(values)}))) if values else []


def _accounts(rows: Iterable[Row]) -> Iterable[AccountRecord]:
    for account, balance, raised, head, number in rows:
        yield AccountRecord(id=account, balance=balance, raised=raised, head=head, number=number)


def _postings_steps(ids: Sequence[str]) -> Queries[tuple[list[PostingRecord], list[Retired]]]:
    """The postings that are whole, and those that a trim has removed."""
    if not ids:
        return [], []
    query = SQL["ledger_postings_by_id"](ids=batch(ids), after=0, limit=len(ids))
    found = [one for one in posted((yield query)) if one.links]  # a bare one is as if not there
    missing = sorted(set(ids) - {one.id for one in found})
    if not missing:
        return found, []
    rows = yield SQL["ledger_retired_of"](ids=batch(missing), after="", limit=len(missing))
    gone = retired_rows(rows)
    kept = [one.posting for one in gone if one.posting is not None]
    return found + kept, [one for one in gone if one.posting is None]


def _newest_steps(wanted: Sequence[SideKey]) -> Queries[list[Row]]:
    """Rows by kind and owner; those of payouts have an index of their own."""
    paid = yield from _asked(
        "ledger_paid_of", wanted=[one for one in wanted if one.kind == "payout"]
    )
    others = [one for one in wanted if one.kind != "payout"]
    return paid + (yield from _asked("ledger_newest_of", wanted=others))


def _lots_steps(wanted: Sequence[tuple[str, int]]) -> Queries[dict[str, tuple[Lot, ...]]]:
    """Lots by account, newest first; wallets from which people spend have an index for it."""
    wallets = [one for one in wanted if one[0].endswith(_SPENT)]
    others = [one for one in wanted if not one[0].endswith(_SPENT)]
    found = yield from _asked("ledger_lots_of_wallets", wanted=wallets)
    found += yield from _asked("ledger_lots_of", wanted=others)
    lots: dict[str, list[Lot]] = {}
    for account, amount, at, source in found:
        lots.setdefault(account, []).append(Lot(amount=amount, at=at, source=source))
    return {account: tuple(each) for account, each in lots.items()}


def _sums(asked: tuple[tuple[str, int], ...], found: Iterable[Row]) -> dict[tuple[str, int], int]:
    """One for each that was asked for; 0 where there is nothing yet."""
    return dict.fromkeys(asked, 0) | {(name, since): total for name, since, total in found}


# -- writing ---------------------------------------------------------------------------------


def _write_steps(changes: Changes, now: int) -> Queries[None]:
    """Write what a book has changed, in bulk."""
    writing = Writing(changes.messages, (), now) if changes.messages else None
    if changes.postings:
        yield from _posting_steps(changes)
    if changes.sides:
        yield from _side_steps(changes.sides)
    if changes.keys:
        yield _add("ledger_key_add", map(_key_columns, changes.keys))
    if changes.attempts:
        yield _add("ledger_attempt_add", map(astuple, changes.attempts))
    for move in changes.attempt_moves:
        # the totals behind the old place first: the move changes where that is
        yield SQL["fall_attempts"](subject=move.subject, key=move.key)
        yield SQL["move_attempt"](subject=move.subject, key=move.key, at=move.at)
    if writing is not None:
        yield from writing.steps()


def _posting_steps(changes: Changes) -> Queries[None]:
    new = [_new_account(one.account.id) for one in changes.accounts if one.was == 0]
    if new:
        # Accounts before the links that name them.
        yield SQL["make_accounts"](accounts=batch(new))
    if ends := [one.id for one in changes.postings if one.id.endswith(END)]:
        yield SQL["drop_bare_postings"](ids=batch(ends))
    numbered = enumerate(changes.postings, 1)
    drafts = (draft for number, posting in numbered for draft in _drafts(number, posting))
    # Nothing of ours is ever left there, and what others put there would be sealed with this.
    yield SQL["ledger_draft_clear"]()
    yield _add("ledger_draft_add", drafts)
    yield _add("ledger_posting_add", map(_sealed, changes.postings))


def _side_steps(changes: Sequence[SideChange]) -> Queries[None]:
    changed = [(*astuple(one.row), one.was) for one in changes if one.was]
    if changed and any(one.row.unique_key is not None for one in changes):
        # before the rows that take them: a key may go from one row to another
        yield SQL["give_up_unique_keys"](sides=batch(changed))
    # Over the version that was read: a caller's own statements may have changed a row since.
    if changed and len((yield SQL["change_sides"](sides=batch(changed)))) < len(changed):
        raise StoreBusy("somebody else has written a row of the ledger meanwhile: do it again")
    new = [astuple(one.row) for one in changes if not one.was]
    if new:
        yield _add("ledger_side_add", new)


def _add(name: str, some: Iterable[Any]) -> Query:
    return SQL[name](batch=batch(some))


def _new_account(account: str) -> tuple[Any, ...]:
    """The chart's fields of an account."""
    known = chart(account)
    side = 1 if known.debit_grows else -1
    return (account, known.kind, known.currency.value, side, int(known.guarded))


def _drafts(number: int, posting: PostingRecord) -> Iterable[tuple[Any, ...]]:
    """The links of a posting that is to be sealed as the ``number``-th from now, from 1."""
    for place, link in enumerate(posting.links, number * _PLACES):
        head = (place, link.account, link.number, link.amount, link.balance, link.hash)
        yield head if link.entries == (link.amount,) else (*head, _encode(link.entries).decode())


def _sealed(posting: PostingRecord) -> tuple[Any, ...]:
    """The row that seals it."""
    return (posting.id, posting.at, posting.links[0].source, posting.meta)


def _key_columns(record: KeyRecord) -> tuple[Any, ...]:
    return (record.key, record.fingerprint, _encode(record.receipt).decode(), record.at)
