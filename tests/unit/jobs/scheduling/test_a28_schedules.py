"""Edge cases A.28 143-154, by number, what A.29 says of schedules, and cases about their times."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from offpath import InvalidArgument, JobState
from offpath.jobs.schedules.occurrences import RECORDED
from offpath.jobs.schedules.times import Cron
from offpath.model.options import decode_run
from offpath.model.unsent import unsent
from tests.unit.jobs.scheduling.scheduled import DAY, HOUR, START, Rig

MONDAY = datetime(2026, 6, 1, tzinfo=UTC)


def following(cron: str, after: str) -> str:
    """The next occurrence, to the minute."""
    found = Cron(cron)(datetime.fromisoformat(after).replace(tzinfo=UTC))
    assert found is not None
    return found.strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize("cron", ["* * * * *", "*/15 0 * * 1-5"])
def test_a28_143_what_is_accepted(cron: str) -> None:
    assert Cron(cron)(MONDAY) is not None


@pytest.mark.parametrize("cron", ["* * * *", "60 * * * *", "*/0 * * * *", "5-3 * * * *"])
def test_a28_144_what_is_refused(cron: str) -> None:
    with pytest.raises(InvalidArgument, match="cron"):
        Cron(cron)


@pytest.mark.parametrize(
    ("cron", "days"),
    [
        ("0 0 15 * *", [15]),
        ("0 0 * * 1", [8, 15, 22, 29]),
        ("0 0 17 * 1", [8, 15, 17, 22, 29]),  # both are given: either will do
    ],
)
def test_a28_145_days_of_the_month_and_of_the_week(cron: str, days: list[int]) -> None:
    times, at, found = Cron(cron), MONDAY, []
    while (following := times(at)) is not None and following.month == 6:
        at = following
        found.append(at.day)
    assert found == days


def test_a28_146_what_never_comes_is_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="0 0 30 2"):
        Cron("0 0 30 2 *")


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("* * * * *", "2026-06-01T10:00:30", "2026-06-01T10:01:00"),
        ("*/15 * * * *", "2026-06-01T10:07:00", "2026-06-01T10:15:00"),
        ("30 14 * * *", "2026-06-01T09:00:00", "2026-06-01T14:30:00"),
    ],
)
def test_a28_147_to_149_the_next_time(cron: str, after: str, expected: str) -> None:
    assert following(cron, after) == expected


async def test_a28_150_to_152_a_function_gives_times_until_it_gives_none(rig: Rig) -> None:
    times = [START + timedelta(seconds=2), START + timedelta(minutes=5)]

    def some(after: datetime) -> datetime | None:
        return next((at for at in times if at > after), None)

    rig.schedules.define("some", rig.report.job(), when=some)
    await rig.tick()
    await rig.live(600, 2)
    assert [when for _, when in rig.ran] == times
    assert (await rig.schedules.get("some")).next_at is None


async def test_a28_153_a_schedule_without_times_is_refused(rig: Rig) -> None:
    with pytest.raises(InvalidArgument, match="cron="):
        rig.schedules.define("never", rig.report.job())


async def test_a28_154_one_that_is_far_away_is_deleted_before_it_fires(rig: Rig) -> None:
    await rig.schedules.create("yearly", rig.report.job(), cron="@yearly")
    await rig.schedules.delete("yearly")
    await rig.live(400 * DAY, 10 * DAY)
    assert rig.ran == []
    assert await rig.schedules.list() == []


async def test_s2_in_the_hour_that_comes_twice_it_fires_once(rig: Rig) -> None:
    rig.clock.set(datetime(2026, 11, 1, 4, tzinfo=UTC))  # midnight in New York
    rig.schedules.define("n", rig.report.job(), cron="30 1 * * *", zone="America/New_York")
    await rig.tick()
    await rig.live(4 * HOUR, 60)
    assert [when for _, when in rig.ran] == [datetime(2026, 11, 1, 5, 30, tzinfo=UTC)]


def test_s2_the_29th_of_february_comes_in_its_years() -> None:
    assert following("0 0 29 2 *", "2096-03-01T00:00:00") == "2104-02-29T00:00:00"


async def test_s3_next_times_are_one_for_the_whole_fleet(rig: Rig) -> None:
    def five(after: datetime) -> datetime | None:
        return after + timedelta(seconds=5)

    rig.schedules.define("f", rig.report.job(), when=five)
    await rig.tick()
    early, late = rig.another(), rig.another()
    for second in range(40):  # they look at different moments, 2.5 s apart
        rig.clock.advance(0.5)
        if second % 10 == 0:
            await early.step()
        if second % 10 == 5:
            await late.step()
    await rig.tick()
    await rig.run()
    assert [when for _, when in rig.ran] == [START + timedelta(seconds=5 * n) for n in range(1, 5)]


async def test_s20_a_scheduled_job_keeps_its_options(rig: Rig) -> None:
    job = rig.report.options(priority=7, tags=["t"], retry=9, queue="vip").job("x")
    rig.schedules.define("kept", job, every=HOUR)
    await rig.tick()
    rig.clock.advance(HOUR)
    await rig.tick()
    (row,) = await rig.rows()
    (record,) = await rig.store.get([row.job or ""])
    assert (record.priority, record.tags, record.queue) == (7, ("t", "schedule:kept"), "vip")
    given = replace(decode_run(unsent(job).new.options), scheduled_for=row.at)
    assert decode_run(record.options) == given


async def test_b3_early_timers_and_two_schedulers_double_nothing(rig: Rig) -> None:
    """A thousand minutes, looked at 20 ms before and after each, by two at once."""
    chance = random.Random(3)
    rig.schedules.define("often", rig.report.job(), every=60)
    await rig.tick()
    tickers = [rig.another(), rig.another()]
    for minute in range(1, 1001):
        nominal = START + timedelta(minutes=minute)
        for offset in (-0.005, chance.uniform(-0.02, 0), 0.0, chance.uniform(0, 0.02)):
            moment = nominal + timedelta(seconds=offset)
            if moment > rig.clock.now():
                rig.clock.set(moment)
            await asyncio.gather(*(ticker.step() for ticker in tickers))
    rows = await rig.store.occurrences("often", limit=2_000)
    assert sorted(row.at for row in rows) == [START + timedelta(minutes=n) for n in range(1, 1001)]
    made = await rig.app.jobs.count(state=JobState.QUEUED)
    assert made == len({row.job for row in rows}) == 1_000


async def test_b5_after_three_hours_away_it_runs_once_and_says_what_was_missed(rig: Rig) -> None:
    rig.schedules.define("often", rig.report.job(), every=60)
    await rig.tick()
    rig.clock.advance(3 * HOUR + 30)
    await rig.tick()
    await rig.run()
    assert [when for _, when in rig.ran] == [START + timedelta(hours=3)]
    assert await rig.outcomes("often") == {"fired": 1, "missed": RECORDED - 1}


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *"])
async def test_f2_what_can_never_be_is_refused_and_the_good_one_goes_on(
    rig: Rig, cron: str
) -> None:
    rig.schedules.define("good", rig.report.job(), every=HOUR)
    with pytest.raises(InvalidArgument, match="dates that come"):
        rig.schedules.define("bad", rig.report.job(), cron=cron)
    await rig.tick()
    await rig.live(2 * HOUR, HOUR)
    assert len(rig.ran) == 2


@pytest.mark.parametrize("late", [1.0, 3.0, 8 * HOUR])
async def test_f4_what_is_late_runs_once(rig: Rig, late: float) -> None:
    rig.schedules.define("daily", rig.report.job(), cron="0 12 * * *")
    await rig.tick()
    rig.clock.set(START + timedelta(hours=12, seconds=late))
    await rig.tick()
    await rig.run()
    assert [when for _, when in rig.ran] == [START + timedelta(hours=12)]


async def test_f4_what_an_explicit_limit_skips_is_recorded(rig: Rig) -> None:
    rig.schedules.define("daily", rig.report.job(), cron="0 12 * * *", missed="skip", grace=60)
    await rig.tick()
    rig.clock.set(START + timedelta(hours=13))
    await rig.tick()
    assert await rig.outcomes("daily") == {"missed": 1}
