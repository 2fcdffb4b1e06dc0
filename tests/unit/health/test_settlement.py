"""Settlement runs: each eligible record is credited once, and no run is green that is not."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from offpath import StoreUnavailable
from offpath.errors import SettlementFailed
from offpath.health.crediting_run import GRACE
from offpath.model.settlement_rates import MAX_AMOUNT
from offpath.model.tally import Verdict
from offpath.settlements import AlreadyCredited, Credited, SettlementOutcome
from offpath.settlements.rates import PlayerActivity
from offpath.testing import FakeRecords
from tests.unit.health.desk import NOVEMBER, REBATE, Desk, counts, players, reach

# -- the outcomes ----------------------------------------------------------------------------------


async def test_no_eligible_record_is_clean() -> None:
    desk = Desk(FakeRecords([PlayerActivity(id="r", user="u", turnover=99)]))
    summary = await desk.run()
    assert counts(summary) == (0, 0, 0, 0)
    assert summary.outcome is SettlementOutcome.CLEAN
    assert desk.credits.calls == []
    status = desk.app.settlements.status("rebate")
    assert (status.verdict, status.healthy, status.cause) == (Verdict.EMPTY, True, None)


async def test_five_of_five_succeed_is_clean(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    with caplog.at_level(logging.INFO, "offpath.settlement"):
        summary = await desk.run()
    assert counts(summary) == (5, 5, 0, 0)
    assert summary.outcome is SettlementOutcome.CLEAN
    assert desk.credits.balances == {f"u{n}": 10 * n for n in range(1, 6)}
    assert [record.levelno for record in caplog.records] == [logging.INFO]
    summary.require_clean()


async def test_five_of_five_fail_raises_with_the_summary(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.credits.fail(*(f"u{n}" for n in range(1, 6)))
    error = await desk.failing()
    assert counts(error.summary) == (5, 0, 5, 0)
    assert error.summary.outcome is SettlementOutcome.FAILED
    assert isinstance(error.__cause__, StoreUnavailable)
    assert (error.code, error.retryable) == ("settlement_failed", True)
    assert "5 of 5 credits failed (StoreUnavailable)" in str(error)
    (line,) = [one for one in caplog.records if one.name == "offpath.settlement"]
    assert line.levelno == logging.ERROR
    assert not desk.app.settlements.status("rebate").healthy


async def test_two_of_five_fail_is_degraded_and_seen(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.credits.fail("u2", "u4")
    summary = await desk.run()
    assert counts(summary) == (5, 3, 2, 0)
    assert summary.outcome is SettlementOutcome.DEGRADED
    assert [(one.record, one.error) for one in summary.failures] == [
        ("r2", "StoreUnavailable"),
        ("r4", "StoreUnavailable"),
    ]
    (line,) = [one for one in caplog.records if one.name == "offpath.settlement"]
    assert line.levelno == logging.WARNING
    assert "r2: StoreUnavailable" in line.getMessage()
    seen = {"attempted": 5, "credited": 3, "failed": 2, "outcome": "degraded"}
    assert {name: getattr(line, name) for name in seen} == seen
    status = desk.app.settlements.status("rebate")
    assert (status.verdict, status.healthy, status.last) == (Verdict.DEGRADED, False, summary)
    with pytest.raises(SettlementFailed, match="2 of 5"):
        summary.require_clean()


async def test_each_kind_of_error_is_reported_once_a_run() -> None:
    desk = Desk()
    desk.credits.fail("u1", "u2", "u3", error=ConnectionError("line"))
    desk.credits.fail("u4", error=KeyError("x"))
    await desk.run()
    assert desk.told == [
        ("ConnectionError", "settlement run rebate"),
        ("KeyError", "settlement run rebate"),
    ]


async def test_a_degraded_run_repeated_credits_only_what_is_missing() -> None:
    desk = Desk()
    desk.credits.fail("u2", "u4")
    await desk.run()
    assert desk.counted("consecutive_failures") == 1
    desk.credits.heal()
    again = await desk.run()
    assert counts(again) == (5, 2, 0, 3)
    assert again.outcome is SettlementOutcome.CLEAN
    assert desk.credits.balances == {f"u{n}": 10 * n for n in range(1, 6)}
    assert desk.app.settlements.status("rebate").healthy
    assert desk.counted("consecutive_failures") == 0


async def test_all_that_was_missing_fails_beside_earlier_credits_is_degraded() -> None:
    """Eligible are the five, and not all of them failed: three have their credit."""
    desk = Desk()
    desk.credits.fail("u4", "u5")
    await desk.run()
    again = await desk.run()
    assert counts(again) == (5, 0, 2, 3)
    assert again.outcome is SettlementOutcome.DEGRADED
    assert desk.app.settlements.status("rebate").consecutive_failures == 2


async def test_a_run_that_finds_all_credited_before_is_clean() -> None:
    desk = Desk()
    await desk.run()
    again = await desk.run()
    assert counts(again) == (5, 0, 0, 5)
    assert again.outcome is SettlementOutcome.CLEAN
    assert again.verdict is Verdict.CLEAN


async def test_an_unknown_outcome_is_failed_and_settled_by_the_next_run() -> None:
    desk = Desk()
    desk.credits.lose_answer("u3")
    assert counts(await desk.run()) == (5, 4, 1, 0)
    desk.credits.heal()
    assert counts(await desk.run()) == (5, 0, 0, 5)
    assert desk.credits.balances["u3"] == 30


# -- crashes, repeats, two at once -----------------------------------------------------------------


class Crash(BaseException):
    """The process is gone."""


async def test_after_a_crash_the_rest_is_credited() -> None:
    desk = Desk()
    done = 0

    async def credit(user: str, amount: int, key: str) -> Credited | AlreadyCredited:
        nonlocal done
        if done == 3:
            raise Crash
        done += 1
        return await desk.credits(user, amount, key)

    desk.app.settlements.define("crashing", records=desk.records, calculate=REBATE, credit=credit)
    with pytest.raises(BaseExceptionGroup) as caught:
        await desk.app.settlements.run("crashing", NOVEMBER)
    assert caught.group_contains(Crash)
    crashed = desk.app.settlements.status("crashing")
    assert crashed.last is not None
    assert (crashed.verdict, crashed.last.credited) == (Verdict.FAILED, 3)
    done = -9
    again = await desk.app.settlements.run("crashing", NOVEMBER)
    assert counts(again) == (5, 2, 0, 3)
    assert sum(desk.credits.balances.values()) == 150


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_two_runs_at_once_credit_nothing_twice(concurrency: int) -> None:
    desk = Desk(FakeRecords(players(40)))
    runs = await asyncio.gather(*(desk.run(concurrency=concurrency) for _ in range(2)))
    assert [(one.attempted, one.failed, one.outcome) for one in runs] == [
        (40, 0, SettlementOutcome.CLEAN)
    ] * 2
    assert sum(one.credited for one in runs) == sum(one.skipped for one in runs) == 40
    assert sum(desk.credits.balances.values()) == sum(10 * n for n in range(1, 41))


async def test_periods_and_kinds_have_keys_of_their_own() -> None:
    desk = Desk(FakeRecords(players(1)))
    desk.app.settlements.define(
        "extra", records=desk.records, calculate=REBATE, credit=desk.credits, zone="Europe/Madrid"
    )
    await desk.run("2026-11")
    await desk.run("2026-12")
    await desk.app.settlements.run("extra", "2026-11")
    assert list(desk.credits.credits) == [
        "rebate|2026-11@UTC|r1",
        "rebate|2026-12@UTC|r1",
        "extra|2026-11@Europe/Madrid|r1",
    ]


async def test_a_changed_amount_under_a_used_key_is_a_failure_not_a_second_credit() -> None:
    desk = Desk(FakeRecords(players(2)))
    await desk.run()
    desk.records.records[0] = PlayerActivity(id="r1", user="u1", turnover=90_000)
    again = await desk.run()
    assert counts(again) == (2, 0, 1, 1)
    assert again.failures[0].error == "Conflict"
    assert desk.credits.balances["u1"] == 10


# -- one record's trouble is its own ---------------------------------------------------------------


@pytest.mark.parametrize("amount", [-1, MAX_AMOUNT + 1, 1.5, None, "7", True])
async def test_an_amount_that_is_none_fails_that_record(amount: Any) -> None:
    desk = Desk(calculate=lambda record: amount if record.id == "r3" else 7)
    summary = await desk.run()
    assert counts(summary) == (5, 4, 1, 0)
    assert [one.record for one in summary.failures] == ["r3"]
    assert "u3" not in desk.credits.balances


async def test_a_calculator_that_raises_fails_that_record() -> None:
    def calculate(record: PlayerActivity) -> int:
        return 10_000 // abs(record.turnover - 3_000)

    summary = await Desk(calculate=calculate).run()
    assert [(one.record, one.error) for one in summary.failures] == [("r3", "ZeroDivisionError")]


async def test_a_calculator_may_be_async_and_is_found_by_the_decorator() -> None:
    desk = Desk()
    settlements = desk.app.settlements

    @settlements.define("flat", records=desk.records, credit=desk.credits)
    async def flat(record: PlayerActivity) -> int:
        await asyncio.sleep(0)
        return 3

    assert counts(await settlements.run("flat", NOVEMBER)) == (5, 5, 0, 0)
    assert await flat(players(1)[0]) == 3


@pytest.mark.parametrize("record", [1, None, "", "x" * 500, "a\0b"])
async def test_a_record_without_a_usable_id_fails_alone(record: Any) -> None:
    bad = PlayerActivity(id=record, user="bad", turnover=5_000)
    summary = await Desk(FakeRecords([bad, *players(2)])).run()
    assert counts(summary) == (3, 2, 1, 0)
    assert len(summary.failures[0].record) <= 200


@pytest.mark.parametrize("answer", [None, True, "credited", Credited])
async def test_a_port_that_does_not_answer_has_not_credited(answer: Any) -> None:
    async def credit(user: str, amount: int, key: str) -> Any:
        return answer

    error = await Desk(credit=credit).failing()
    assert counts(error.summary) == (5, 0, 5, 0)
    assert {one.error for one in error.summary.failures} == {"InvalidArgument"}


async def test_a_credit_that_hangs_is_ended_at_its_limit() -> None:
    desk = Desk(timeout=10)
    desk.credits.hang("u2")
    running = asyncio.create_task(desk.run())
    await reach(lambda: len(desk.credits.calls) == 2 and desk.clock.next_due() is not None)
    desk.clock.advance(9.9)
    await asyncio.sleep(0)
    assert not running.done()
    desk.clock.advance(0.2)
    summary = await running
    assert counts(summary) == (5, 4, 1, 0)
    assert [(one.record, one.error) for one in summary.failures] == [("r2", "TimeoutError")]
    assert summary.seconds == pytest.approx(10.1)


async def test_a_credit_that_cannot_be_cancelled_does_not_hold_the_run() -> None:
    let_go = asyncio.Event()

    async def credit(user: str, amount: int, key: str) -> Credited:
        while user == "u1" and not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return Credited()

    desk = Desk(credit=credit, timeout=10)
    running = asyncio.create_task(desk.run())
    for step in (10.1, GRACE):
        await reach(lambda: desk.clock.next_due() is not None)
        desk.clock.advance(step)
        for _ in range(10):
            await asyncio.sleep(0)
    summary = await running
    let_go.set()
    assert counts(summary) == (5, 4, 1, 0)


async def test_a_credit_that_cancels_itself_fails_alone() -> None:
    async def credit(user: str, amount: int, key: str) -> Credited:
        if user == "u2":
            raise asyncio.CancelledError
        return Credited()

    assert counts(await Desk(credit=credit).run()) == (5, 4, 1, 0)
