"""Settlement runs: how records are read, how kinds are defined, and what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from offpath import InvalidArgument
from offpath.errors import SettlementFailed
from offpath.health.fleet import FleetHealth, FleetMember, WorkerPresence
from offpath.health.supervisor import document
from offpath.model.health import SettlementReport, WorkerReport
from offpath.model.settlement_run import MAX_FAILURES
from offpath.model.tally import Verdict
from offpath.settlements import Credited, Period, SettlementOutcome, paged
from offpath.settlements.rates import PlayerActivity
from offpath.testing import FakeRecords
from tests.unit.health.desk import NOVEMBER, REBATE, Desk, counts, players, reach

# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 3])
async def test_records_that_cannot_be_read_to_their_end_fail_the_run(after: int) -> None:
    desk = Desk(FakeRecords(players(5), error_after=after))
    error = await desk.failing()
    assert counts(error.summary) == (after, after, 0, 0)
    assert error.summary.stopped_by == "StoreUnavailable"
    assert "stopped by StoreUnavailable" in str(error)
    assert desk.app.settlements.status("rebate").verdict is Verdict.FAILED
    desk.records.error_after = None
    assert counts(await desk.run()) == (5, 5 - after, 0, after)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_reading_that_is_cancelled_from_inside_fails_the_run(concurrency: int) -> None:
    async def records(period: Period) -> AsyncIterator[PlayerActivity]:
        for one in players(2):
            yield one
        raise asyncio.CancelledError  # as a driver does whose own task was cancelled

    desk = Desk(records)
    with pytest.raises(SettlementFailed) as caught:
        await desk.app.settlements.run("rebate", NOVEMBER, concurrency=concurrency)
    assert counts(caught.value.summary) == (2, 2, 0, 0)
    assert caught.value.summary.stopped_by == "CancelledInside"


async def test_a_calculation_that_is_cancelled_from_inside_is_that_record_s_failure() -> None:
    async def calculate(record: PlayerActivity) -> int:
        if record.id == players(2)[1].id:
            raise asyncio.CancelledError
        return 5

    desk = Desk()
    desk.app.settlements.define(
        "own", records=desk.records, credit=desk.credits, calculate=calculate
    )
    summary = await desk.app.settlements.run("own", NOVEMBER)
    assert counts(summary) == (5, 4, 1, 0)
    assert summary.outcome is SettlementOutcome.DEGRADED
    assert [one.error for one in summary.failures] == ["CancelledInside"]


async def test_a_cancelled_run_is_not_green_and_closes_its_records() -> None:
    closed = asyncio.Event()

    async def records(period: Period) -> AsyncIterator[PlayerActivity]:
        try:
            for one in players(5):
                yield one
        finally:
            closed.set()

    desk = Desk(records)
    desk.credits.hang("u3")
    running = asyncio.create_task(desk.run())
    await reach(lambda: len(desk.credits.calls) == 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert closed.is_set()
    last = desk.app.settlements.status("rebate").last
    assert last is not None
    assert (last.credited, last.stopped_by) == (2, "CancelledError")
    assert last.outcome is SettlementOutcome.FAILED


async def test_only_as_many_records_are_held_as_are_credited_at_once() -> None:
    given, done, most = 0, 0, 0

    async def records(period: Period) -> AsyncIterator[PlayerActivity]:
        nonlocal given
        for one in players(300):
            given += 1
            yield one

    async def credit(user: str, amount: int, key: str) -> Credited:
        nonlocal most, done
        most = max(most, given - done)
        await asyncio.sleep(0)
        done += 1
        return Credited()

    summary = await Desk(records, credit=credit).run(concurrency=4)
    assert counts(summary) == (300, 300, 0, 0)
    assert 1 < most <= 8  # four in hand, and at most one more for each


async def test_a_summary_names_a_bounded_number_of_failures() -> None:
    desk = Desk(FakeRecords(players(MAX_FAILURES + 50)), calculate=lambda _: -1)
    error = await desk.failing()
    assert error.summary.failed == MAX_FAILURES + 50
    assert len(error.summary.failures) == MAX_FAILURES
    assert len(str(error)) < 400


async def test_pages_are_asked_for_until_one_is_empty() -> None:
    rows = sorted(players(7), key=lambda one: one.id)
    asked: list[str | None] = []

    async def fetch(period: Period, *, after: str | None, limit: int) -> Sequence[PlayerActivity]:
        asked.append(after)
        return [row for row in rows if after is None or row.id > after][:limit]

    assert counts(await Desk(paged(fetch, limit=3)).run()) == (7, 7, 0, 0)
    assert asked == [None, "r3", "r6", "r7"]


async def test_pages_that_do_not_move_on_end_the_run() -> None:
    async def fetch(period: Period, *, after: str | None, limit: int) -> Sequence[PlayerActivity]:
        return players(2)

    error = await Desk(paged(fetch)).failing()
    assert error.summary.stopped_by == "InvalidArgument"


# -- defining, measuring ---------------------------------------------------------------------------


async def test_what_happened_is_counted_by_kind() -> None:
    desk = Desk()
    desk.credits.fail("u2", "u4")
    await desk.run()
    desk.credits.heal()
    desk.clock.advance(60)
    await desk.run()
    names = ("attempted_total", "credited_total", "failed_total", "skipped_total")
    assert [desk.counted(name) for name in names] == [10, 5, 2, 3]
    assert desk.counted("last_success_timestamp_seconds") == desk.clock.now().timestamp()
    runs = desk.app.metrics.list("offpath_settlement_runs_total")
    assert {one.labels["outcome"]: one.value for one in runs} == {"degraded": 1, "clean": 1}


async def test_kinds_are_listed_before_and_after_their_first_run() -> None:
    desk = Desk()
    (status,) = desk.app.settlements.statuses()
    assert (status.kind, status.verdict, status.healthy) == ("rebate", None, True)
    await desk.run()
    (status,) = desk.app.settlements.statuses()
    assert status.last_success == desk.clock.now()
    assert "rebate" in desk.app.settlements
    assert len(desk.app.settlements) == 1


async def test_an_unknown_kind_or_period_is_refused_before_anything_is_read() -> None:
    desk = Desk(unit="month")
    with pytest.raises(InvalidArgument, match="known: rebate"):
        await desk.app.settlements.run("rebat", NOVEMBER)
    with pytest.raises(InvalidArgument, match="is not a period"):
        await desk.run("november")
    with pytest.raises(InvalidArgument, match="by the month, and 2026-11-27@UTC is a day"):
        await desk.run("2026-11-27")
    with pytest.raises(InvalidArgument, match="concurrency"):
        await desk.run(concurrency=0)
    assert desk.records.periods == []
    assert desk.app.settlements.status("rebate").verdict is None


@pytest.mark.parametrize(
    ("kind", "terms"),
    [
        ("Rebate", {}),
        ("a|b", {}),
        ("", {}),
        ("rebate", {}),
        ("new", {"zone": "Mars/Base"}),
        ("new", {"zone": "../etc/passwd"}),
        ("new", {"unit": "year"}),
        ("new", {"concurrency": 0}),
        ("new", {"concurrency": 1_001}),
        ("new", {"timeout": -1}),
        ("new", {"calculate": 7}),
        ("new", {"credit": None}),
        ("new", {"records": [1]}),
    ],
)
def test_a_wrong_definition_is_refused(kind: str, terms: dict[str, Any]) -> None:
    desk = Desk()
    given: dict[str, Any] = {"records": desk.records, "calculate": REBATE, "credit": desk.credits}
    with pytest.raises(InvalidArgument):
        desk.app.settlements.define(kind, **{**given, **terms})
    assert len(desk.app.settlements) == 1


def test_records_that_are_no_generator_are_refused_with_the_remedy() -> None:
    async def records(period: Period) -> list[PlayerActivity]:
        return players(5)

    with pytest.raises(InvalidArgument, match="yield"):
        Desk(records)


async def test_a_job_that_runs_it_retries_until_all_is_credited() -> None:
    desk = Desk()
    desk.credits.fail("u2")

    @desk.app.task(retry=3)
    async def settle_month(period: str) -> dict[str, int]:
        summary = await desk.app.settlements.run("rebate", period)
        desk.credits.heal()
        summary.require_clean()
        return summary.counts()

    async with desk.app:
        handle = await settle_month.enqueue(NOVEMBER)
        ended = asyncio.create_task(handle.result())
        while not ended.done():
            if (due := desk.clock.next_due()) is not None:
                desk.clock.advance(due)
            await asyncio.sleep(0)
        result = await ended
    assert result == {"attempted": 5, "credited": 1, "failed": 0, "skipped": 4}


async def test_the_last_run_of_each_kind_is_told_by_the_worker_beside_it() -> None:
    desk = Desk()
    desk.credits.fail("u2", "u4")
    async with desk.app, desk.app.worker() as worker:
        assert worker.report().settlements == ()
        await desk.run()
        report = worker.report()
        (told,) = report.settlements
        assert (told.verdict, told.period, told.attempted, told.credited, told.failed) == (
            Verdict.DEGRADED,
            "2026-11@UTC",
            5,
            3,
            2,
        )
        (warning,) = report.warnings
        assert warning.startswith("settlement run rebate for 2026-11@UTC degraded: 2 of 5 credits")
        assert not [one for one in report.reasons if "rebate" in one], "no process can mend it"
        shown = document(report)
        assert shown["warnings"] == list(report.warnings)
        assert shown["settlements"][0]["failed"] == 2
        desk.credits.heal()
        await desk.run()
        assert worker.report().warnings == ()


def test_in_the_fleet_the_newest_run_of_a_kind_counts() -> None:
    def run(minute: int, **fields: Any) -> SettlementReport:
        started = datetime(2026, 11, 28, 0, minute, tzinfo=UTC)
        return SettlementReport(kind="rebate", period="p", started_at=started, **fields)

    def said(*runs: SettlementReport) -> FleetMember:
        record: Any = None
        return FleetMember(
            record=record, presence=WorkerPresence.GONE, report=WorkerReport(settlements=runs)
        )

    failed = run(1, verdict=Verdict.FAILED, failed=5, cause="5 of 5 credits failed")
    clean = run(2, verdict=Verdict.CLEAN)
    other = FleetMember(record=cast("Any", None), presence=WorkerPresence.LIVE, report=None)
    fleet = FleetHealth(members=(said(clean), said(failed), other), gauges=())
    assert (fleet.settlements, fleet.warnings) == ((clean,), ())
    alone = FleetHealth(members=(said(failed),), gauges=())
    assert alone.warnings == ("settlement run rebate for p failed: 5 of 5 credits failed",)
