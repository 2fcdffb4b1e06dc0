"""Comparing two sides of a window: §16.91-§16.93 and the first half of §16.94."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from offpath.economy.ledger.reconciliation import (
    Difference,
    Pulled,
    ReconcileRecord,
    ReconcileReport,
    RecordKind,
    Window,
)
from offpath.economy.ledger.sides import reconcile
from offpath.errors import InvalidArgument
from offpath.model.ledger.money import Money

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


WINDOW = Window(since=at(10), until=at(20))


def record(
    key: str,
    amount: str = "USD:5.00",
    *,
    kind: RecordKind = RecordKind.BUY,
    when: float = 15,
    ref: str = "r",
) -> ReconcileRecord:
    return ReconcileRecord(kind=kind, key=key, amount=Money.parse(amount), ref=ref, at=at(when))


def compared(processor: list[ReconcileRecord], ledger: list[ReconcileRecord]) -> ReconcileReport:
    return reconcile(WINDOW, Pulled(processor=tuple(processor), ledger=tuple(ledger)))


def counts(report: ReconcileReport) -> tuple[int, int, int, int]:
    return (
        report.matched,
        report.processor_orphans,
        report.ledger_orphans,
        report.amount_drifts,
    )


def test_what_both_have_alike_is_matched() -> None:
    """§16.91."""
    report = compared([record("a"), record("b")], [record("b"), record("a")])
    assert report.reconciled
    assert counts(report) == (2, 0, 0, 0)
    assert (report.processor_count, report.ledger_count) == (2, 2)


@pytest.mark.parametrize(
    ("processor", "ledger", "expected"),
    [
        ([record("a")], [], (0, 1, 0, 0)),
        ([], [record("a")], (0, 0, 1, 0)),
        ([record("a")], [record("a", "USD:5.01")], (0, 0, 0, 1)),
        ([record("a")], [record("a", kind=RecordKind.PAYOUT)], (0, 1, 1, 0)),
        ([record("a")], [record("a", "CREDIT:5.00")], (0, 0, 0, 1)),
    ],
)
def test_what_differs_is_told_by_how_it_differs(
    processor: list[ReconcileRecord],
    ledger: list[ReconcileRecord],
    expected: tuple[int, int, int, int],
) -> None:
    """§16.91: orphans of each side, drift of a cent, kinds that never match, two currencies."""
    report = compared(processor, ledger)
    assert counts(report) == expected
    assert not report.reconciled


def test_the_window_has_its_beginning_and_not_its_end() -> None:
    """§16.92."""
    report = compared([record("in", when=10), record("out", when=20)], [record("in", when=19.9)])
    assert counts(report) == (1, 0, 0, 0)
    assert report.processor_count == 1


def test_a_duplicate_pairs_once() -> None:
    """§16.93."""
    once = compared([record("a")], [record("a", ref="1"), record("a", ref="2")])
    assert counts(once) == (1, 0, 1, 0)
    thrice = compared([record("a")], [record("a", ref=str(n)) for n in range(4)])
    assert counts(thrice) == (1, 0, 3, 0)


def test_any_order_gives_the_identical_report() -> None:
    """§16.94. Of duplicates too: equal amounts are paired before unequal ones."""
    ledger = [record("a", "USD:5.01", ref="x"), record("a", ref="y"), record("b"), record("c")]
    processor = [record("a", ref="p"), record("d"), record("c", "USD:1.00")]
    reports = {repr(compared(processor, list(order))) for order in permutations(ledger)}
    reports |= {repr(compared(list(order), ledger)) for order in permutations(processor)}
    assert len(reports) == 1
    report = compared(processor, ledger)
    assert counts(report) == (1, 1, 2, 1)
    assert [one.difference for one in report.discrepancies] == [
        Difference.AMOUNT_DRIFT,
        Difference.LEDGER_ORPHAN,
        Difference.LEDGER_ORPHAN,
        Difference.PROCESSOR_ORPHAN,
    ]
    total = report.matched + report.amount_drifts
    assert total + report.processor_orphans == report.processor_count
    assert total + report.ledger_orphans == report.ledger_count


def test_what_is_no_window_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="begins before it ends"):
        Window(since=at(5), until=at(5))
    with pytest.raises(InvalidArgument, match="time zone"):
        Window(since=datetime(2026, 1, 1), until=at(5))  # noqa: DTZ001 - that is the point
