"""The tick, over weeks of a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offpath import StoreUnavailable
from offpath.errors import InvalidArgument
from offpath.jobs.schedules.schedules import Schedules
from offpath.jobs.schedules.ticker import KEEP, PRUNE_EVERY
from offpath.model.schedule import Schedule, Timing, TimingKind
from offpath.runtime.clock import ManualClock
from offpath.sweeps import Verdict
from tests.unit.jobs.scheduling.scheduled import DAY, HOUR, START, Rig


def at(*days_hours: float) -> datetime:
    return START + timedelta(days=days_hours[0], hours=days_hours[1])


async def test_a_week_has_each_occurrence_once(rig: Rig) -> None:
    rig.schedules.define("nightly", rig.report.job("n"), cron="0 3 * * *")
    rig.schedules.define("often", rig.report.job("o"), every=6 * HOUR)
    await rig.tick()
    await rig.live(7 * DAY, 1800)
    nights = [when for of, when in rig.ran if of == "n"]
    assert nights == [at(day, 3) for day in range(7)]
    often = [when for of, when in rig.ran if of == "o"]
    assert often == [START + timedelta(hours=6 * n) for n in range(1, 29)]
    assert await rig.outcomes("nightly") == {"fired": 7}


async def test_a_week_over_a_change_of_the_clocks_has_each_day_once(rig: Rig) -> None:
    rig.clock.set(datetime(2026, 3, 26, tzinfo=UTC))
    rig.schedules.define("b", rig.report.job(), cron="30 2 * * *", zone="Europe/Berlin")
    await rig.tick()
    await rig.live(7 * DAY, 900)
    found = [when.strftime("%d %H:%M") for _, when in rig.ran if when is not None]
    expected = ["26 01:30", "27 01:30", "28 01:30", "29 01:00", "30 00:30", "31 00:30", "01 00:30"]
    assert found == expected


async def test_many_workers_fire_each_occurrence_once(rig: Rig) -> None:
    rig.schedules.define("often", rig.report.job(), every=60)
    tickers = [rig.another() for _ in range(5)]
    for _ in range(30):
        rig.clock.advance(60)
        await asyncio.gather(*(ticker.step() for ticker in tickers))
    await rig.run()
    assert [when for _, when in rig.ran] == [
        START + timedelta(minutes=n)
        for n in range(2, 31)  # put at 1, so the first is at 2
    ]


async def test_a_turn_asks_to_be_called_when_the_next_one_is_due(rig: Rig) -> None:
    rig.schedules.define("often", rig.report.job(), every=HOUR)
    turn = await rig.tick()
    assert (turn.verdict, turn.again) == (Verdict.EMPTY, HOUR)
    rig.clock.advance(HOUR - 1)
    assert (await rig.tick()).again == 1.0
    assert await rig.rows() == []


async def test_a_clock_that_jumps_back_repeats_nothing(rig: Rig) -> None:
    rig.schedules.define("often", rig.report.job(), every=HOUR)
    await rig.tick()
    await rig.live(3 * HOUR, HOUR)
    rig.clock.set(START)
    await rig.live(3 * HOUR, HOUR)
    assert len(rig.ran) == 3
    await rig.live(HOUR, HOUR)
    assert [when for _, when in rig.ran] == [at(0, n) for n in (1, 2, 3, 4)]


async def test_a_wrong_clock_of_the_worker_decides_nothing(rig: Rig) -> None:
    rig.schedules.define("often", rig.report.job(), every=HOUR, missed="skip")
    hasty = rig.schedules.ticker(ManualClock(START + timedelta(days=9)), print_error)
    await hasty.step()
    rig.clock.advance(HOUR)
    await hasty.step()
    assert [row.at for row in await rig.rows()] == [at(0, 1)]
    assert await rig.schedules.next("often", count=1) == [at(0, 2)]


def print_error(error: BaseException, phase: str) -> None:
    raise AssertionError(phase) from error


# -- what code defines -----------------------------------------------------------------------------


async def test_every_worker_puts_what_code_defines_and_only_a_change_counts(rig: Rig) -> None:
    rig.schedules.define("nightly", rig.report.job("n"), cron="0 3 * * *")
    for _ in range(3):
        await rig.another().step()
    assert (await rig.schedules.get("nightly")).version == 1
    rig.clock.advance(1)
    deployed = Schedules(rig.opened, rig.app.new_id)
    deployed.define("nightly", rig.report.job("n"), cron="0 4 * * *")
    await rig.another(deployed).step()
    record = await rig.schedules.get("nightly")
    assert (record.version, record.next_at) == (2, at(0, 4))


async def test_a_schedule_that_left_the_code_stays_until_it_is_deleted(rig: Rig) -> None:
    rig.schedules.define("old", rig.report.job(), every=HOUR)
    await rig.tick()
    newer = rig.another(Schedules(rig.opened, rig.app.new_id))
    rig.clock.advance(HOUR)
    await newer.step()
    assert len(await rig.rows()) == 1


async def test_one_that_is_defined_while_a_worker_runs_is_put_too(rig: Rig) -> None:
    await rig.tick()
    rig.schedules.define("late", rig.report.job(), every=HOUR)
    await rig.tick()
    assert [one.schedule.name for one in await rig.schedules.list()] == ["late"]


async def test_a_function_says_when(rig: Rig) -> None:
    def mornings(after: datetime) -> datetime | None:
        following = after.replace(hour=8, minute=0, second=0, microsecond=0)
        following += timedelta(days=following <= after)
        return following if following < at(3, 0) else None

    rig.schedules.define("m", rig.report.job(), when=mornings)
    await rig.tick()
    await rig.live(6 * DAY, HOUR)
    assert [when for _, when in rig.ran] == [at(day, 8) for day in range(3)]
    assert (await rig.schedules.get("m")).next_at is None


# -- missed, paused, overlapping -------------------------------------------------------------------


@pytest.mark.parametrize(("missed", "expected"), [("skip", 0), ("one", 1), ("all", 5)])
async def test_an_outage_is_made_up_for_by_policy(rig: Rig, missed: str, expected: int) -> None:
    rig.schedules.define("hourly", rig.report.job(), every=HOUR, missed=missed)
    await rig.tick()
    rig.clock.advance(5 * HOUR + 600)
    await rig.tick()
    await rig.run()
    assert len(rig.ran) == expected
    assert sum((await rig.outcomes("hourly")).values()) == 5
    assert (await rig.schedules.get("hourly")).next_at == at(0, 6)


async def test_a_pause_is_not_an_outage(rig: Rig) -> None:
    rig.schedules.define("hourly", rig.report.job(), every=HOUR, missed="all")
    await rig.tick()
    await rig.schedules.pause("hourly")
    await rig.live(5 * HOUR, HOUR)
    assert await rig.schedules.next("hourly", count=2) == [at(0, 6), at(0, 7)]
    await rig.schedules.resume("hourly")
    await rig.live(HOUR, HOUR)
    assert [when for _, when in rig.ran] == [at(0, 6)]


async def test_resuming_one_that_is_not_paused_passes_nothing_over(rig: Rig) -> None:
    rig.schedules.define("hourly", rig.report.job(), every=HOUR)
    await rig.tick()
    rig.clock.advance(HOUR)
    await rig.schedules.resume("hourly")
    await rig.tick()
    assert len(await rig.rows()) == 1


async def test_skip_passes_over_while_the_last_job_is_open(rig: Rig) -> None:
    rig.schedules.define("hourly", rig.report.job(), every=HOUR, overlap="skip")
    await rig.tick()
    for _ in range(3):
        rig.clock.advance(HOUR)
        await rig.tick()  # nobody runs the job
    assert await rig.outcomes("hourly") == {"fired": 1, "skipped": 2}
    await rig.run()
    await rig.live(HOUR, HOUR)
    assert [when for _, when in rig.ran] == [at(0, 1), at(0, 4)]


@pytest.mark.parametrize("missed", ["skip", "one", "all"])
async def test_queue_waits_for_the_last_job_and_misses_nothing(rig: Rig, missed: str) -> None:
    rig.schedules.define("hourly", rig.report.job(), every=HOUR, overlap="queue", missed=missed)
    await rig.tick()
    for _ in range(4):
        rig.clock.advance(HOUR)
        turn = await rig.tick()
        assert turn.verdict in {Verdict.CLEAN, Verdict.EMPTY}
    assert await rig.outcomes("hourly") == {"fired": 1}
    # Another worker than the one that saw it wait: runs the first, fires and runs the others.
    await rig.run()
    assert [when for _, when in rig.ran] == [at(0, n) for n in (1, 2, 3, 4)]


async def test_what_came_due_after_the_last_job_had_ended_did_not_wait_for_it(rig: Rig) -> None:
    rig.schedules.define("hourly", rig.report.job(), every=HOUR, overlap="queue", missed="skip")
    await rig.tick()
    await rig.live(HOUR, HOUR)
    rig.clock.advance(5 * HOUR - 600)
    await rig.tick()
    assert await rig.outcomes("hourly") == {"fired": 1, "missed": 4}


async def test_allow_makes_it_whatever_the_last_job_does(rig: Rig) -> None:
    rig.schedules.define("hourly", rig.report.job(), every=HOUR)
    await rig.tick()
    for _ in range(3):
        rig.clock.advance(HOUR)
        await rig.tick()
    assert await rig.outcomes("hourly") == {"fired": 3}


# -- one that is broken ----------------------------------------------------------------------------


async def broken(rig: Rig, name: str, timing: Timing) -> None:
    """Put a schedule as an older version, or a person with SQL, may have left it."""
    good = rig.schedules.define(f"{name}'s twin", rig.report.job(), every=HOUR)
    del rig.schedules.definitions[good.name]
    bad = Schedule(name=name, timing=timing, template=good.template)
    await rig.store.put_schedule(bad, next_at=START)


BROKEN = [
    Timing(kind=TimingKind.CRON, expression="0 0 30 2 *"),
    Timing(kind=TimingKind.CRON, expression="0 0 * * *", zone="Mars/Olympus"),
    Timing(kind=TimingKind.FUNCTION, function="gone"),
    Timing(kind=TimingKind.EVERY, seconds=0.0),
]


@pytest.mark.parametrize("timing", BROKEN)
async def test_a_broken_one_is_named_and_the_others_go_on(rig: Rig, timing: Timing) -> None:
    rig.schedules.define("good", rig.report.job(), every=HOUR)
    await broken(rig, "bad one", timing)
    await rig.tick()
    rig.clock.advance(HOUR)
    turn = await rig.ticker.step()
    assert turn.verdict is Verdict.DEGRADED
    assert turn.counts == {"failed": 1, "fired": 1}
    assert turn.cause is not None
    assert "bad one (invalid_argument)" in turn.cause
    alone = await rig.ticker.step()
    assert (alone.verdict, alone.counts) == (Verdict.DEGRADED, {"failed": 1})
    # Told once, not at every turn.
    assert [(type(error), phase) for error, phase in rig.errors] == [
        (InvalidArgument, "schedule bad one")
    ]


async def test_any_number_of_broken_ones_hides_no_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.jobs.schedules.ticker.BATCH", 2)
    for number in range(7):
        await broken(rig, f"bad {number}", BROKEN[0])
    rig.schedules.define("good", rig.report.job(), every=HOUR)
    await rig.ticker.step()
    rig.clock.advance(HOUR)
    for _ in range(5):
        await rig.ticker.step()
    assert await rig.outcomes("good") == {"fired": 1}


async def test_a_function_that_raises_is_broken_and_not_the_turn(rig: Rig) -> None:
    calls: Iterator[int] = iter(range(100))

    def shaky(after: datetime) -> datetime | None:
        if next(calls) > 0:
            raise ZeroDivisionError
        return after + timedelta(hours=1)

    rig.schedules.define("shaky", rig.report.job(), when=shaky)
    await rig.tick()
    rig.clock.advance(HOUR)
    turn = await rig.tick()
    assert turn.cause is not None
    assert "shaky (ZeroDivisionError)" in turn.cause
    assert await rig.rows() == []


async def test_a_store_that_is_away_fails_the_turn(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.schedules.define("good", rig.report.job(), every=HOUR)
    await rig.tick()
    rig.clock.advance(HOUR)

    async def away(_firing: object) -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(rig.store, "fire", away)
    with pytest.raises(StoreUnavailable):
        await rig.ticker.step()


async def test_old_history_is_removed(rig: Rig) -> None:
    rig.schedules.define("hourly", rig.report.job(), every=HOUR)
    await rig.tick()
    await rig.live(3 * HOUR, HOUR)
    await rig.schedules.pause("hourly")
    rig.clock.advance(KEEP - 1.5 * HOUR)
    await rig.tick()
    assert len(await rig.rows()) == 2
    rig.clock.advance(max(PRUNE_EVERY, 2 * HOUR))
    await rig.tick()
    assert await rig.rows() == []


async def test_a_pass_by_hand_tells_only_what_moved(rig: Rig) -> None:
    await broken(rig, "bad one", BROKEN[0])
    rig.schedules.define("good", rig.report.job(), every=HOUR)
    await rig.ticker.step()
    rig.clock.advance(HOUR)
    assert (await rig.ticker.run_once(limit=10)).counts == {"fired": 1}
    assert (await rig.ticker.run_once(limit=10)).counts == {}
    assert (await rig.ticker.sweep(10)).counts == {"failed": 1}
