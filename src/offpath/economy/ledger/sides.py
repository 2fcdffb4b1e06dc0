"""Both sides of a reconciliation, sorted in a file of their own, and read once in order.

SQLite sorts what does not fit into memory on the disk, so a million records take no more memory
than a thousand. Its file has no name and is gone with the process. A small window never leaves
memory.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice, zip_longest
from operator import itemgetter
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from offpath.economy.ledger.reconciliation import (
    LISTED,
    Difference,
    Discrepancy,
    KindCounts,
    Pulled,
    ReconcileRecord,
    ReconcileReport,
    RecordKind,
    Window,
)
from offpath.errors import InvalidArgument
from offpath.model.ledger.faults import ProviderFailed, StoreFailed
from offpath.model.ledger.money import Currency, Money

_PROCESSOR: Final = 0
_LEDGER: Final = 1
_AT_ONCE: Final = 5_000
"""Records between two looks whether anybody still waits for the comparison."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_OPEN: Final = """
pragma journal_mode = off;
pragma synchronous = off;
pragma temp_store = file;
pragma cache_size = -8000;
create table record (kind, key, currency, minor, ref, at, side);
"""
_ADD: Final = "insert into record values (?, ?, ?, ?, ?, ?, ?)"
_SORTED: Final = "select * from record order by kind, key, currency, minor, ref, at"
_Row: TypeAlias = tuple[str, str, str, int, str, int, int]


class Sides:
    """The records of a window, given side by side in pieces, and the report of their comparison.

    Its calls block, and may come from one thread after the other. ``close`` may come while another
    one is at it, whose call then ends with ``ProviderFailed``.
    """

    def __init__(self, window: Window, listed: int = LISTED) -> None:
        self._window = window
        self._listed = listed
        self._counts: Counter[tuple[RecordKind, int]] = Counter()
        self._database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._database.executescript(_OPEN)
        # A pass that gives up on a slow feed closes while the feed's thread still adds.
        self._working = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def add_processor(self, records: Iterable[ReconcileRecord]) -> None:
        """Add records that the processor has. Raises ``InvalidArgument``."""
        self._add(_PROCESSOR, records)

    def add_ledger(self, records: Iterable[ReconcileRecord]) -> None:
        """Add records that the ledger has. Raises ``InvalidArgument``."""
        self._add(_LEDGER, records)

    def report(self) -> ReconcileReport:
        """The comparison of all that was added."""
        made = _Comparison(self._listed)
        with self._working:
            for place, of_key in groupby(self._rows(), key=itemgetter(0, 1)):
                made.add(RecordKind(place[0]), place[1], of_key)
        processor, ledger = (
            sum(count for (_, each), count in self._counts.items() if each == side)
            for side in (_PROCESSOR, _LEDGER)
        )
        return ReconcileReport(
            window=self._window,
            matched=made.matched.total(),
            processor_count=processor,
            ledger_count=ledger,
            processor_orphans=made.found[Difference.PROCESSOR_ORPHAN],
            ledger_orphans=made.found[Difference.LEDGER_ORPHAN],
            amount_drifts=made.found[Difference.AMOUNT_DRIFT],
            discrepancies=made.listed(),
            kinds=self._kinds(made.matched),
        )

    def close(self) -> None:
        """Forget all records. Idempotent."""
        self._closed = True
        if self._working.acquire(blocking=False):
            try:
                self._database.close()
            finally:
                self._working.release()

    def _add(self, side: int, records: Iterable[ReconcileRecord]) -> None:
        inside = (one for one in records if one.at in self._window)
        try:
            with self._working:
                self._database.execute("begin")
                while page := list(islice(inside, _AT_ONCE)):
                    self._open()
                    self._write(page, side)
                self._open()
                self._database.execute("commit")
        finally:
            if self._closed:
                self.close()

    def _write(self, page: list[ReconcileRecord], side: int) -> None:
        try:
            self._database.executemany(_ADD, [_row(one, side) for one in page])
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"a record has a text that is no Unicode: {error}") from error
        except sqlite3.Error as error:
            raise StoreFailed(
                f"the records of {self._window} cannot be sorted: {error}; they are written to the "
                "folder for temporary files, which SQLITE_TMPDIR names"
            ) from error
        self._counts.update((one.kind, side) for one in page)

    def _open(self) -> None:
        if self._closed:
            raise ProviderFailed("nobody waits for this comparison any more")

    def _rows(self) -> Iterator[_Row]:
        return iter(self._database.execute(_SORTED))

    def _kinds(self, matched: Counter[RecordKind]) -> tuple[KindCounts, ...]:
        counts = self._counts
        return tuple(
            KindCounts(
                kind=kind,
                processor_count=counts[kind, _PROCESSOR],
                ledger_count=counts[kind, _LEDGER],
                matched=matched[kind],
            )
            for kind in RecordKind
            if counts[kind, _PROCESSOR] or counts[kind, _LEDGER]
        )


def reconcile(window: Window, pulled: Pulled) -> ReconcileReport:
    """Compare both sides of a window.

    Records of the same kind and key are paired: equal amounts first, then what is left in order
    of amount, reference and time, so that the order in which a feed gives them makes no difference.
    Raises ``InvalidArgument`` for a text that is no Unicode.
    """
    with Sides(window) as sides:
        sides.add_processor(pulled.processor)
        sides.add_ledger(pulled.ledger or ())
        return sides.report()


class _Comparison:
    """The findings so far, of keys that come in order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.matched: Counter[RecordKind] = Counter()
        self.found: Counter[Difference] = Counter()
        self._first: dict[Difference, list[Discrepancy]] = {one: [] for one in Difference}

    def add(self, kind: RecordKind, key: str, rows: Iterator[_Row]) -> None:
        """Compare all records of a kind and key."""
        theirs, ours = _Unpaired(self._most), _Unpaired(self._most)
        for _, alike in groupby(rows, key=itemgetter(2, 3)):
            self.matched[kind] += _paired(alike, (theirs, ours), self._most)
        both = min(theirs.count, ours.count)
        self.found[Difference.AMOUNT_DRIFT] += both
        self.found[Difference.PROCESSOR_ORPHAN] += theirs.count - both
        self.found[Difference.LEDGER_ORPHAN] += ours.count - both
        for one, other in zip_longest(theirs.first, ours.first):
            self._tell(_discrepancy(kind, key, one, other))

    def listed(self) -> tuple[Discrepancy, ...]:
        """The first of each difference, in order."""
        return tuple(
            one for kind in sorted(Difference) for one in _first(self._first[kind], self._most)
        )

    def _tell(self, one: Discrepancy) -> None:
        kept = self._first[one.difference]
        kept.append(one)
        if len(kept) > 2 * self._most:  # kinds come one after the other, each with all keys
            kept[:] = _first(kept, self._most)


class _Unpaired:
    """Records of one side and key that have no equal one: all counted, the first kept."""

    __slots__ = ("_most", "count", "first")

    def __init__(self, most: int) -> None:
        self.count = 0
        self.first: list[_Row] = []
        self._most = most

    def add(self, count: int, rows: deque[_Row]) -> None:
        """Add ``count`` records, of which the last ones are in ``rows``."""
        self.count += count
        last = list(rows)[max(0, len(rows) - count) :]
        self.first += last[: self._most - len(self.first)]


def _paired(alike: Iterator[_Row], rests: tuple[_Unpaired, _Unpaired], most: int) -> int:
    """The number of pairs among records of one key and amount; the others go to the rests."""
    last = (deque[_Row](maxlen=most), deque[_Row](maxlen=most))
    counts = [0, 0]
    for row in alike:
        last[row[6]].append(row)
        counts[row[6]] += 1
    same = min(counts)
    for rest, count, rows in zip(rests, counts, last, strict=True):
        if count > same:
            rest.add(count - same, rows)
    return same


def _first(found: list[Discrepancy], most: int) -> list[Discrepancy]:
    return sorted(found, key=lambda one: (one.key, one.kind))[:most]


def _discrepancy(
    kind: RecordKind, key: str, processor: _Row | None, ledger: _Row | None
) -> Discrepancy:
    if ledger is None:
        difference = Difference.PROCESSOR_ORPHAN
    elif processor is None:
        difference = Difference.LEDGER_ORPHAN
    else:
        difference = Difference.AMOUNT_DRIFT
    return Discrepancy(
        difference=difference,
        kind=kind,
        key=key,
        processor=None if processor is None else _record(processor),
        ledger=None if ledger is None else _record(ledger),
    )


def _row(one: ReconcileRecord, side: int) -> tuple[Any, ...]:
    amount, at = one.amount, (one.at - _EPOCH) // _MICROSECOND
    return (one.kind.value, one.key, amount.currency.value, amount.minor, one.ref, at, side)


def _record(row: _Row) -> ReconcileRecord:
    kind, key, currency, minor, ref, at, _ = row
    return ReconcileRecord(
        kind=RecordKind(kind),
        key=key,
        amount=Money(Currency(currency), minor),
        ref=ref,
        at=_EPOCH + timedelta(microseconds=at),
    )
