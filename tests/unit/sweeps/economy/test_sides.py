"""D11: a million records are compared in the memory of a few, and the answer is the same."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.economy.ledger.reconciliation import (
    Difference,
    Pulled,
    ReconcileRecord,
    ReconcileReport,
    RecordKind,
    Window,
)
from offpath.economy.ledger.sides import Sides, reconcile
from offpath.errors import InvalidArgument
from offpath.model.ledger.faults import ProviderFailed
from offpath.model.ledger.money import Currency, Money

T0 = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(since=T0, until=T0 + timedelta(days=1))
GROWTH = 24_000
"""KiB that ten times the records may add: SQLite's cache fills up, the interpreter's arenas too."""


def record(key: str, minor: int = 5, *, kind: RecordKind = RecordKind.BUY) -> ReconcileRecord:
    return ReconcileRecord(kind=kind, key=key, amount=Money(Currency.USD, minor), ref="r", at=T0)


def records(count: int, prefix: str = "k") -> Iterator[ReconcileRecord]:
    """So many of them, in another order than that of their keys."""
    return (record(f"{prefix}{n * 7_919 % count:07}", n % 97) for n in range(count))


def compared(
    processor: Sequence[ReconcileRecord], ledger: Sequence[ReconcileRecord], listed: int
) -> ReconcileReport:
    with Sides(WINDOW, listed) as sides:
        sides.add_processor(processor)
        sides.add_ledger(ledger)
        return sides.report()


def peak_after(count: int) -> int:
    """The most memory, in KiB, of a process that compares so many records of each side."""
    script = f"from {__name__} import compare; print(compare({count}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def compare(count: int) -> int:
    """What the other process does. One record in a thousand is missing on each side."""
    there = (one for one in records(count) if one.amount.minor)
    report = reconcile(WINDOW, Pulled(processor=records(count), ledger=there))
    assert report.processor_orphans == -(-count // 97)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_ten_times_the_records_take_no_more_memory() -> None:
    small, large = peak_after(5_000), peak_after(50_000)
    assert large - small < GROWTH, f"{small} KiB became {large} KiB"


def test_all_differences_are_counted_and_the_first_of_each_are_listed() -> None:
    theirs = [*records(30, "p"), *(record(f"d{n:02}", 1) for n in range(9))]
    ours = [*records(20, "l"), *(record(f"d{n:02}", 2) for n in range(9))]
    report = compared(theirs, ours, 4)
    assert (report.processor_orphans, report.ledger_orphans, report.amount_drifts) == (30, 20, 9)
    assert report.differing == 59
    keys = [f"{prefix}{n:0{width}}" for prefix, width in ("d2", "l7", "p7") for n in range(4)]
    assert [one.key for one in report.discrepancies] == keys


def test_a_key_that_very_many_records_have_is_counted_too() -> None:
    """As when a column was named wrongly."""
    report = compared([record("same", n % 7) for n in range(700)], [record("same", 3)] * 20, 5)
    assert (report.matched, report.amount_drifts, report.processor_orphans) == (20, 0, 680)
    assert len(report.discrepancies) == 5


def test_a_text_that_is_no_unicode_is_told() -> None:
    with pytest.raises(InvalidArgument, match="no Unicode"):
        compared([record("\ud800")], [], 5)


def test_who_gives_up_ends_the_reading_of_a_feed() -> None:
    """The port's time limit has passed: its thread goes on until its next look."""
    sides = Sides(WINDOW)

    def endless() -> Iterator[ReconcileRecord]:
        for number in range(100_000):
            if number == 7:
                sides.close()
            yield record(f"k{number}")
        raise AssertionError("it was read to its end")

    with pytest.raises(ProviderFailed, match="nobody waits"):
        sides.add_processor(endless())
    sides.close()


one_record = st.builds(
    record,
    st.sampled_from(["a", "b", "é", "\x00"]),
    st.integers(0, 3),
    kind=st.sampled_from(list(RecordKind)),
)


@given(st.lists(one_record, max_size=12), st.lists(one_record, max_size=12))
def test_counts_are_those_of_a_plain_comparison(
    processor: list[ReconcileRecord], ledger: list[ReconcileRecord]
) -> None:
    report = compared(processor, ledger, 100)
    found: Counter[Difference] = Counter()
    matched = 0
    for place in {(one.kind, one.key) for one in (*processor, *ledger)}:
        theirs, ours = (
            Counter(one.amount for one in side if (one.kind, one.key) == place)
            for side in (processor, ledger)
        )
        matched += (theirs & ours).total()
        left, right = (theirs - ours).total(), (ours - theirs).total()
        found[Difference.AMOUNT_DRIFT] += min(left, right)
        found[Difference.PROCESSOR_ORPHAN] += max(0, left - right)
        found[Difference.LEDGER_ORPHAN] += max(0, right - left)
    assert report.matched == matched
    assert Counter(one.difference for one in report.discrepancies) == +found
    assert report.differing == found.total()
    assert report.reconciled is (not found.total())
