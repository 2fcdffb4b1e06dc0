"""Schedules at run time, and what is refused where they are defined."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offpath import InvalidArgument
from offpath.errors import Conflict, ScheduleNotFound
from offpath.model.schedule import Missed, OccurrenceOutcome, Overlap
from tests.unit.jobs.scheduling.scheduled import DAY, HOUR, START, Rig


@pytest.mark.parametrize(
    ("terms", "named"),
    [
        ({}, "cron="),
        ({"cron": "@daily", "every": 60}, "one of"),
        ({"cron": "0 0 30 2 *"}, "0 0 30 2"),
        ({"cron": "@daily", "zone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"every": 60, "zone": "Europe/Berlin"}, "zone="),
        ({"cron": "@daily", "anchor": START}, "anchor="),
        ({"every": 60, "anchor": datetime(2026, 1, 1)}, "anchor"),  # noqa: DTZ001 - refused
        ({"every": 0.5}, "every"),
        ({"every": "hourly"}, "every"),
        ({"when": "nobody"}, "nobody"),
        ({"when": 5}, "next-time function"),
        ({"every": 60, "overlap": "maybe"}, "allow, skip, queue"),
        ({"every": 60, "missed": "some"}, "skip, one, all"),
        ({"every": 60, "missed_limit": 0}, "missed_limit"),
        ({"every": 60, "grace": -1}, "grace"),
        ({"every": 60, "crom": "@daily"}, "crom"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_written(
    rig: Rig, terms: Any, named: str
) -> None:
    with pytest.raises(InvalidArgument, match=named):
        rig.schedules.define("x", rig.report.job(), **terms)
    with pytest.raises(InvalidArgument, match=named):
        await rig.schedules.create("x", rig.report.job(), **terms)
    assert rig.schedules.definitions == {}
    assert await rig.schedules.list() == []


async def test_a_job_with_terms_of_its_own_is_refused(rig: Rig) -> None:
    for options in ({"unique": "k"}, {"delay": 5.0}, {"run_at": START}, {"deadline": START}):
        job = rig.report.options(**options).job()
        with pytest.raises(InvalidArgument, match="job of schedule 'x'"):
            rig.schedules.define("x", job, every=60)
    with pytest.raises(InvalidArgument, match="unsent job"):
        rig.schedules.define("x", rig.report, every=60)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "n" * 195, "line\nbreak"])
async def test_a_name_that_cannot_be_is_refused(rig: Rig, name: str) -> None:
    with pytest.raises(InvalidArgument, match="schedule name"):
        rig.schedules.define(name, rig.report.job(), every=60)


async def test_a_name_is_defined_once(rig: Rig) -> None:
    rig.schedules.define("x", rig.report.job(), every=60)
    with pytest.raises(InvalidArgument, match="'x' already"):
        rig.schedules.define("x", rig.report.job(), every=90)


async def test_a_function_s_name_is_one_function_s(rig: Rig) -> None:
    def never(_after: datetime) -> datetime | None:
        return None

    rig.schedules.define("x", rig.report.job(), when=never)
    rig.schedules.define("y", rig.report.job(), when="never")
    other = lambda _: None  # noqa: E731 - another one of the same name
    other.__name__ = "never"
    with pytest.raises(InvalidArgument, match="another next-time function"):
        rig.schedules.define("z", rig.report.job(), when=other)


async def test_two_definitions_in_two_processes_are_equal(rig: Rig) -> None:
    one = rig.schedules.define("x", rig.report.job("a"), every=60)
    del rig.schedules.definitions["x"]
    assert rig.schedules.define("x", rig.report.job("a"), every=60) == one


async def test_one_is_created_while_workers_run(rig: Rig) -> None:
    record = await rig.schedules.create(
        "x", rig.report.options(tags=["eu"]).job("a"), every=HOUR, overlap="skip", missed="all"
    )
    assert (record.next_at, record.schedule.origin) == (START + timedelta(hours=1), "api")
    assert (record.schedule.overlap, record.schedule.missed) == (Overlap.SKIP, Missed.ALL)
    await rig.live(HOUR, HOUR)
    assert rig.ran == [("a", START + timedelta(hours=1))]
    (occurrence,) = await rig.schedules.history("x")
    assert occurrence.job is not None
    job = await rig.app.jobs.get(occurrence.job)
    assert (job.tags, job.run_at) == (("eu", "schedule:x"), START + timedelta(hours=1))


async def test_creating_the_same_again_changes_nothing_and_another_conflicts(rig: Rig) -> None:
    first = await rig.schedules.create("x", rig.report.job("a"), every=HOUR)
    assert await rig.schedules.create("x", rig.report.job("a"), every=HOUR) == first
    with pytest.raises(Conflict, match="another schedule 'x'"):
        await rig.schedules.create("x", rig.report.job("b"), every=HOUR)


async def test_a_change_keeps_what_was_not_given(rig: Rig) -> None:
    await rig.schedules.create("x", rig.report.job("a"), cron="0 3 * * *", missed="all")
    await rig.schedules.pause("x")
    moved = await rig.schedules.change("x", zone="Europe/Berlin")
    assert (moved.next_at, moved.schedule.missed) == (START + timedelta(hours=2), Missed.ALL)
    other = await rig.schedules.change("x", rig.report.job("b"), grace=5)
    assert (other.next_at, other.schedule.timing) == (moved.next_at, moved.schedule.timing)
    assert other.schedule.grace == 5.0
    assert other.paused
    interval = await rig.schedules.change("x", every=60, anchor=START + timedelta(seconds=7))
    assert interval.next_at == START + timedelta(seconds=7)
    with pytest.raises(InvalidArgument, match="zone="):
        await rig.schedules.change("x", zone="Europe/Berlin")


async def test_what_was_changed_at_run_time_is_not_undone_by_a_deploy(rig: Rig) -> None:
    rig.schedules.define("x", rig.report.job(), every=HOUR)
    await rig.tick()
    await rig.schedules.change("x", every=2 * HOUR)
    await rig.another().step()
    assert (await rig.schedules.get("x")).schedule.timing.seconds == 2 * HOUR
    await rig.schedules.delete("x")
    await rig.another().step()
    assert (await rig.schedules.get("x")).schedule.timing.seconds == HOUR


async def test_a_trigger_makes_one_now_and_moves_nothing(rig: Rig) -> None:
    await rig.schedules.create("x", rig.report.job("a"), every=DAY)
    await rig.schedules.pause("x")
    rig.clock.advance(HOUR)
    job = await rig.schedules.trigger("x")
    await rig.run()
    assert rig.ran == [("a", START + timedelta(hours=1))]
    assert (await rig.schedules.get("x")).next_at == START + timedelta(days=1)
    (occurrence,) = await rig.schedules.history("x")
    assert (occurrence.outcome, occurrence.job) == (OccurrenceOutcome.TRIGGERED, job)


async def test_the_next_times_are_told(rig: Rig) -> None:
    await rig.schedules.create("x", rig.report.job(), cron="30 2 * * *", zone="Europe/Berlin")
    rig.clock.set(datetime(2026, 3, 28, tzinfo=UTC))
    await rig.schedules.pause("x")
    found = await rig.schedules.next("x", count=3)
    assert [at.strftime("%d %H:%M") for at in found] == ["28 01:30", "29 01:00", "30 00:30"]
    with pytest.raises(InvalidArgument, match="count"):
        await rig.schedules.next("x", count=0)


async def test_history_comes_in_pages(rig: Rig) -> None:
    await rig.schedules.create("x", rig.report.job(), every=HOUR)
    await rig.live(5 * HOUR, HOUR)
    first = await rig.schedules.history("x", limit=3)
    rest = await rig.schedules.history("x", limit=3, before=first[-1].at)
    hours = [round((one.at - START) / timedelta(hours=1)) for one in (*first, *rest)]
    assert hours == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    "verb", ["get", "change", "pause", "resume", "trigger", "delete", "next", "history"]
)
async def test_an_unknown_name_is_told(rig: Rig, verb: str) -> None:
    with pytest.raises(ScheduleNotFound, match="'nobody'"):
        await getattr(rig.schedules, verb)("nobody")
