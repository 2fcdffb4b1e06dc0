"""The needs of a batch of operations: the statements that lock and read, and what they bring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from offpath.model.ledger.book import Loaded
from offpath.model.ledger.decision import (
    LedgerOp,
    batch_wants,
)
from offpath.model.ledger.needs import Wanted
from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.records import (
    AccountRecord,
    KeyRecord,
    Lot,
    MoveAttempt,
    SideKey,
    SideRow,
    Totals,
)
from offpath.model.ledger.trims import Retired
from offpath.store.postgres.steps import to_json
from offpath.store.programs.dialect import Rows
from offpath.store.programs.instants import micros
from offpath.store.programs.ledger_reads import summed
from offpath.store.sql import Catalogue, Query


class Read(Struct, frozen=True):
    """The answer of ``read_ledger``."""

    now: int
    newest: tuple[SideRow, ...]
    postings: tuple[PostingRecord, ...]
    retired: tuple[Retired, ...]
    keys: tuple[KeyRecord, ...]
    lots: tuple[tuple[str, tuple[Lot, ...]], ...]
    raised: tuple[tuple[str, int, int], ...]
    attempts: tuple[tuple[str, int, int], ...]
    attempted: tuple[tuple[str, str, int], ...]
    subjects: tuple[MoveAttempt, ...]


decode_read: Final = msgspec.json.Decoder(Read).decode


class BatchNeeds:
    """The needs of a batch, in the statements that ask for them.

    ``pinned``: in a transaction of ours, whose plans are.
    """

    __slots__ = ("_operations", "_pinned", "_timed", "wants")

    def __init__(self, operations: Sequence[LedgerOp], *, pinned: bool = True) -> None:
        self._operations = operations
        self._pinned = pinned
        self._timed = any(op.now is not None for op in operations)
        self.wants = batch_wants(operations, 0)
        """The needs by a clock that says 0: what is locked does not depend on it."""

    @property
    def twice(self) -> bool:
        """True if accounts are locked twice.

        A debt may be born while the first lock waits for its debtor's other accounts: a row that
        the waiting statement does not see. Whoever makes one holds those, so the second lock,
        a statement with a view of its own, sees whatever there is.
        """
        return self.wants.accounts != self.wants.must

    def wants_at(self, now: int) -> Wanted:
        """The same by the store's clock."""
        if self._timed:
            return batch_wants(self._operations, now)
        wants = self.wants
        return msgspec.structs.replace(
            wants,
            lots=_shifted(wants.lots, now),
            raised=_shifted(wants.raised, now),
            attempts=_shifted(wants.attempts, now),
        )

    def queries(
        self, now: datetime | None, sql: Catalogue, *, make: bool = True
    ) -> tuple[Query, ...]:
        """The statements that make accounts, take the locks in their order, and read the rest.

        A row that is locked is read as the lock finds it; all else is read in a statement behind
        the last lock, for one that waited sees other rows as of before its wait.
        """
        wants = self.wants
        queries = [sql["make_accounts"](accounts=to_json(wants.must))] if make else []
        if wants.sides or wants.holders:
            queries.append(
                sql["lock_sides"](sides=_keys(wants.sides), holders=_keys(wants.holders))
            )
        locks = sql["lock_accounts"](accounts=to_json(wants.accounts))
        return (
            *queries,
            *((locks, locks) if self.twice else (locks,)),
            *self._summing(sql),
            self._reading(now, sql),
        )

    def _summing(self, sql: Catalogue) -> tuple[Query, ...]:
        """The totals, in a statement of their own: they need another plan than all else does."""
        if not self.wants.totals:
            return ()
        totals = sql["ledger_totals"]()
        return (sql["unpin"](), totals, sql["pin"]()) if self._pinned else (totals,)

    def summed(self, answers: Sequence[Rows]) -> tuple[Sequence[Rows], Totals | None]:
        """The answers but for those about totals, and the totals."""
        if not self.wants.totals:
            return answers, None
        count = 3 if self._pinned else 1
        *others, read = answers
        return [*others[:-count], read], summed(others[-count:][count // 2])

    def _reading(self, now: datetime | None, sql: Catalogue) -> Query:
        wants, windows = self.wants, self._windows()
        return sql["read_ledger"](
            now=None if now is None else millis(now),
            newest=_keys(wants.newest),
            postings=to_json(wants.postings),
            keys=to_json(wants.keys),
            lots=_windows("account", ((one.lots, relative) for one, relative in windows)),
            raised=_windows("account", ((one.raised, relative) for one, relative in windows)),
            attempts=_windows("subject", ((one.attempts, relative) for one, relative in windows)),
            attempted=to_json([{"subject": one, "key": key} for one, key in wants.attempted]),
            subjects=to_json(_subjects(wants)),
        )

    def _windows(self) -> list[tuple[Wanted, bool]]:
        """Windows that count from the store's clock, and those that bring a time of their own."""
        if not self._timed:
            return [(self.wants, True)]
        return [
            (
                batch_wants([op for op in self._operations if (op.now is None) is relative], 0),
                relative,
            )
            for relative in (True, False)
        ]


def _shifted(windows: Iterable[tuple[str, int]], now: int) -> tuple[tuple[str, int], ...]:
    return tuple((name, now + since) for name, since in windows)


def millis(at: datetime) -> int:
    """A time in milliseconds since 1970, rounded down."""
    return micros(at) // 1000


def loaded(
    read: Read,
    accounts: tuple[AccountRecord, ...],
    sides: tuple[SideRow, ...],
    wants: Wanted,
    totals: Totals | None,
) -> Loaded:
    """All that a batch asked for, as a book takes it."""
    live = tuple(one for one in read.postings if one.links)
    here = {one.id for one in live}
    missing = [gone for gone in read.retired if gone.id not in here]
    found = live + tuple(gone.posting for gone in missing if gone.posting is not None)
    return Loaded(
        wanted=wants,
        now=read.now,
        accounts=accounts,
        sides=sides,
        newest=read.newest,
        postings=found,
        retired=tuple(gone for gone in missing if gone.posting is None),
        keys=read.keys,
        lots=_longest(read.lots),
        raised=_by_window(wants.raised, read.raised),
        attempts=_by_window(wants.attempts, read.attempts),
        attempted={(subject, key): at for subject, key, at in read.attempted},
        subjects={one.subject: one for one in read.subjects},
        totals=totals,
    )


def _longest(lots: Iterable[tuple[str, tuple[Lot, ...]]]) -> dict[str, tuple[Lot, ...]]:
    """The lots of each account. Of one asked for with two windows, the wider one."""
    found: dict[str, tuple[Lot, ...]] = {}
    for account, some in lots:
        if len(some) >= len(found.get(account, ())):
            found[account] = some
    return found


def _by_window(
    wanted: Iterable[tuple[str, int]], found: Iterable[tuple[str, int, int]]
) -> dict[tuple[str, int], int]:
    # A window in which nothing happened has no row in the answer.
    sums = dict.fromkeys(wanted, 0)
    sums.update({(name, since): total for name, since, total in found})
    return sums


def _keys(keys: Iterable[SideKey]) -> str:
    return to_json([{"kind": kind, "name": name} for kind, name in keys])


def _windows(what: str, parts: Iterable[tuple[Iterable[tuple[str, int]], bool]]) -> str:
    return to_json(
        [
            {what: name, "since": since, "relative": relative}
            for windows, relative in parts
            for name, since in windows
        ]
    )


def _subjects(wants: Wanted) -> list[str]:
    return sorted({one for one, _ in wants.attempts} | {one for one, _ in wants.attempted})
