"""Operations of a ledger in one transaction: lock and read, decide, write.

The locks and what is read behind them travel together, and so do the writes and the COMMIT: a batch
costs two round trips, however many operations it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from offpath.model.ledger.book import Book
from offpath.model.ledger.changes import AccountChange, Changes, SideChange
from offpath.model.ledger.decision import (
    Decided,
    LedgerOp,
    decide_all,
    decide_together,
)
from offpath.model.ledger.faults import LedgerError
from offpath.model.ledger.posting import LinkRecord
from offpath.model.ledger.records import (
    AccountRecord,
    Receipt,
    SideRow,
)
from offpath.store.postgres.ledger_needs import BatchNeeds, decode_read, loaded
from offpath.store.postgres.mailbox import message_queries
from offpath.store.postgres.steps import to_json
from offpath.store.programs.dialect import Queries, Rows, Send, Steps
from offpath.store.sql import Catalogue, Query

# A bound of memory, and no more: an account that is forgotten is asked for once again.
_MOST_KNOWN: Final = 100_000


class _Posting(Struct, frozen=True):
    id: str
    meta: str


class _LinkRow(Struct, frozen=True):
    account: str
    number: int
    posting: str
    amount: int
    entries: tuple[int, ...]
    balance: int
    raised: int
    prev: str
    hash: str
    source: str | None


class _Account(Struct, frozen=True):
    id: str
    balance: int
    raised: int
    head: str
    number: int
    was: int


class _Key(Struct, frozen=True):
    key: str
    fingerprint: str
    receipt: str
    at: int


_accounts = msgspec.json.Decoder(tuple[AccountRecord, ...])
_side_rows = msgspec.json.Decoder(tuple[SideRow, ...])
_receipts = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Posted:
    """The outcome of a batch."""

    decided: list[Decided]
    told: bool = False
    """True if messages were written."""


class KnownAccounts:
    """Accounts that this process has seen with a chain: they stay, so they need not be made."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def lack(self, accounts: Iterable[str]) -> bool:
        """True if one of these may have to be made."""
        return not self._ids.issuperset(accounts)

    def see(self, accounts: Iterable[AccountRecord]) -> None:
        """Note those that have a chain."""
        if len(self._ids) > _MOST_KNOWN:
            self._ids.clear()
        self._ids.update(one.id for one in accounts if one.number)

    def forget(self) -> None:
        """Forget which accounts exist: the tables were emptied."""
        self._ids.clear()


def post_steps(
    operations: Sequence[LedgerOp],
    now: datetime | None,
    known: KnownAccounts,
    *,
    sql: Catalogue,
) -> Steps[Posted]:
    """Decide operations in order and write what they did, as the last of a transaction."""
    asked = BatchNeeds(operations)
    # Mostly all accounts are there, and a statement that makes none is spared.
    make = known.lack(asked.wants.must)
    answers = yield Send(asked.queries(now, sql, make=make))
    deal = _deal(asked, answers if make else [[], *answers])
    # The memory was wrong: the tables were emptied, or restored from a copy. So accounts are made
    # and everything is read again, behind its locks.
    if len(deal.accounts) < len(asked.wants.accounts) and not _all(asked, deal):
        known.forget()
        deal = _deal(asked, (yield Send(asked.queries(now, sql))))
    # Only those with a chain: an account that was made for nothing goes again with this
    # transaction.
    known.see(deal.accounts)
    decided = decide_all(deal.book, operations)
    # The changes of the whole batch at once: each account is written once, whatever the number of
    # its operations.
    changes = deal.book.changes()
    queries = _closing(changes, deal, now, sql)
    if queries:
        yield Send(queries, last=True)
    return Posted(decided, told=bool(changes.messages))


class OperationsFailed(Exception):
    """Operations among effects do not go, so nothing of their transaction may stay."""

    def __init__(self, errors: Mapping[int, LedgerError]) -> None:
        super().__init__("operations of the ledger were declined or are faulty")
        self.errors = errors
        """The errors, by the number of the effects that they belong to."""

    @property
    def first(self) -> LedgerError:
        """The first of them."""
        return self.errors[min(self.errors)]


def carry_steps(
    carried: Mapping[int, Sequence[LedgerOp]], now: datetime | None, *, sql: Catalogue
) -> Steps[bool]:
    """Decide the operations of effects, as the last of a transaction of our own; whether messages
    were written. Raises ``OperationsFailed``.
    """
    operations = [op for some in carried.values() for op in some]
    asked = BatchNeeds(operations)
    deal = _deal(asked, (yield Send(asked.queries(now, sql))))
    changes = _carried(deal.book, carried)
    if queries := _closing(changes, deal, now, sql):
        yield Send(queries, last=True)
    return bool(changes.messages)


def carry_embedded(
    carried: Mapping[int, Sequence[LedgerOp]], now: datetime | None, *, sql: Catalogue
) -> Queries[bool]:
    """The same within anybody's transaction, one statement at a time."""
    operations = [op for some in carried.values() for op in some]
    answers: list[Rows] = []
    asked = BatchNeeds(operations, pinned=False)
    # One at a time, in the same order: a caller's connection may have no pipeline.
    for query in asked.queries(now, sql):
        answers += [list((yield query))]
    deal = _deal(asked, answers)
    changes = _carried(deal.book, carried)
    for query in _closing(changes, deal, now, sql):
        yield query
    return bool(changes.messages)


def _carried(book: Book, carried: Mapping[int, Sequence[LedgerOp]]) -> Changes:
    """All that is wrong is found at once, each as if the others that do not go were not there."""
    errors: dict[int, LedgerError] = {}
    for n, operations in carried.items():
        try:
            decide_together(book, operations)
        except LedgerError as error:
            errors[n] = error
    if errors:
        raise OperationsFailed(errors)
    return book.changes()


@dataclass(frozen=True, slots=True)
class _Deal:
    book: Book
    accounts: tuple[AccountRecord, ...]
    """The accounts that are locked."""
    made: list[str]
    """The ids of those accounts that were made for it."""
    bare: tuple[str, ...]
    """Postings without links that are in the way of what is asked for: they count as not there."""


def _deal(asked: BatchNeeds, answers: Sequence[Rows]) -> _Deal:
    others, totals = asked.summed(answers)
    made, *locked, accounts, read = others
    sides = locked[:-1] if asked.twice else locked
    found = decode_read(read[0][0])
    held = _accounts.decode(accounts[0][0])
    read_all = loaded(
        found,
        held,
        tuple(row for some in sides for row in _side_rows.decode(some[0][0])),
        asked.wants_at(found.now),
        totals,
    )
    bare = tuple(sorted(one.id for one in found.postings if not one.links))
    return _Deal(Book(read_all), held, [account for (account,) in made], bare)


def _all(asked: BatchNeeds, deal: _Deal) -> bool:
    """True if every account is locked that had to be."""
    return {one.id for one in deal.accounts}.issuperset(asked.wants.must)


# -- writing ---------------------------------------------------------------------------------


def _closing(
    changes: Changes, deal: _Deal, now: datetime | None, sql: Catalogue
) -> tuple[Query, ...]:
    """The statements that write the changes."""
    queries = message_queries(changes.messages, now, sql=sql)
    queries += _side_changes(changes.sides, sql)
    # They go before the additions, which bring postings of these ids with their links.
    if deal.bare:
        queries.append(sql["drop_bare_postings"](ids=to_json(deal.bare)))
    queries += _additions(changes, sql)
    queries += [
        sql["move_attempt"](subject=move.subject, key=move.key, at=move.at)
        for move in changes.attempt_moves
    ]
    touched = {one.account.id for one in changes.accounts}
    # Made only to be locked: an account without a chain must not stay, or it would look used.
    if unused := [name for name in deal.made if name not in touched]:
        queries.append(sql["drop_accounts"](accounts=to_json(sorted(unused))))
    return tuple(queries)


def _additions(changes: Changes, sql: Catalogue) -> list[Query]:
    sides = [_side(one) for one in changes.sides if not one.was]
    if not (changes.postings or changes.keys or changes.attempts or sides):
        return []
    keys = [_Key(one.key, one.fingerprint, _receipt(one.receipt), one.at) for one in changes.keys]
    query = sql["write_ledger"](
        at=changes.postings[0].at if changes.postings else 0,  # all of a batch are dated alike
        postings=to_json([_Posting(one.id, one.meta) for one in changes.postings]),
        links=to_json([_link(link) for one in changes.postings for link in one.links]),
        accounts=to_json([_account(one) for one in changes.accounts]),
        keys=to_json(keys),
        attempts=to_json(changes.attempts),
        sides=to_json(sides),
        moved=len(changes.accounts),
    )
    return [query]


def _link(link: LinkRecord) -> _LinkRow:
    """By position: this is done for every entry."""
    return _LinkRow(
        link.account,
        link.number,
        link.posting,
        link.amount,
        link.entries,
        link.balance,
        link.raised,
        link.prev,
        link.hash,
        link.source,
    )


def _account(change: AccountChange) -> _Account:
    now = change.account
    return _Account(now.id, now.balance, now.raised, now.head, now.number, change.was)


def _receipt(receipt: Receipt) -> str:
    return _receipts.encode(receipt).decode()


def _side_changes(changes: Sequence[SideChange], sql: Catalogue) -> list[Query]:
    """Before the new rows: one may take a unique key that an old one gives up."""
    old = [_side(one) for one in changes if one.was]
    if not old:
        return []
    change = sql["change_sides"](sides=to_json(old), count=len(old))
    # Within one statement the server checks a unique key row by row, so two rows cannot swap
    # theirs. They are given up by a statement before.
    if len(old) > 1 and any(one["unique_key"] is not None for one in old):
        return [sql["give_up_unique_keys"](sides=to_json(old)), change]
    return [change]


def _side(change: SideChange) -> Mapping[str, Any]:
    return {**msgspec.structs.asdict(change.row), "was": change.was}
