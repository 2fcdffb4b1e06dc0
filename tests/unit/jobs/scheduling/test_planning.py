"""The occurrences of a due schedule that become jobs, and those that are passed over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.jobs.schedules.occurrences import due_times, occurrence_id, plan
from offpath.jobs.schedules.times import Cron, Every
from offpath.model.job import NewJob
from offpath.model.options import decode_run
from offpath.model.schedule import (
    Firing,
    Missed,
    OccurrenceOutcome,
    Overlap,
    Schedule,
    ScheduleRecord,
    Timing,
    TimingKind,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = Every(3600)


def record(next_at: datetime = START, **policies: Any) -> ScheduleRecord:
    schedule = Schedule(
        name="report",
        timing=Timing(kind=TimingKind.EVERY, seconds=3600.0),
        template=NewJob(id=occurrence_id("report", START), task="t", input="{}", fingerprint="f"),
        **policies,
    )
    return ScheduleRecord(
        schedule=schedule,
        paused=False,
        next_at=next_at,
        created_at=START,
        updated_at=START,
        version=3,
    )


def made(firing: Firing) -> list[int]:
    """The hours for which jobs are made."""
    return [round((job.run_at - START) / HOUR) for job in firing.jobs if job.run_at is not None]


def missed(firing: Firing) -> int:
    return sum(one.outcome is OccurrenceOutcome.MISSED for one in firing.occurrences)


def test_an_occurrence_in_time_is_made_with_its_nominal_time() -> None:
    firing = plan(record(), HOURLY, START + timedelta(seconds=20))
    (job,), (occurrence,) = firing.jobs, firing.occurrences
    assert (firing.expected, firing.version, firing.next_at) == (START, 3, START + HOUR)
    assert (job.run_at, decode_run(job.options).scheduled_for) == (START, START)
    assert (occurrence.at, occurrence.outcome) == (START, OccurrenceOutcome.FIRED)
    assert occurrence.job == job.id


def test_everybody_makes_the_same_job_of_an_occurrence() -> None:
    one, other = (plan(record(), HOURLY, START + timedelta(seconds=n)) for n in (1, 2))
    assert one == other
    assert occurrence_id("report", START) != occurrence_id("report", START + HOUR)
    assert occurrence_id("report", START) != occurrence_id("other", START)


def test_ids_sort_by_the_time_of_their_occurrences() -> None:
    ids = [occurrence_id("report", START + n * HOUR) for n in range(50)]
    assert ids == sorted(ids)


def test_a_clock_behind_the_store_s_makes_what_is_due_and_no_more() -> None:
    firing = plan(record(), HOURLY, START - 5 * HOUR)
    assert (made(firing), firing.next_at) == ([0], START + HOUR)


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({"missed": Missed.SKIP}, []),
        ({"missed": Missed.ONE}, [5]),
        ({"missed": Missed.ALL}, [0, 1, 2, 3, 4, 5]),
        ({"missed": Missed.ALL, "missed_limit": 2}, [4, 5]),
    ],
)
def test_what_was_missed_is_made_up_for_by_policy(
    policies: dict[str, Any], expected: list[int]
) -> None:
    firing = plan(record(**policies), HOURLY, START + 5 * HOUR + timedelta(minutes=30))
    assert made(firing) == expected
    assert missed(firing) == 6 - len(expected)
    assert firing.next_at == START + 6 * HOUR


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({"missed": Missed.SKIP}, [5]),
        ({"missed": Missed.ONE}, [5]),
        ({"missed": Missed.ALL}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_one_that_is_due_in_time_is_made_whatever_was_missed(
    policies: dict[str, Any], expected: list[int]
) -> None:
    assert made(plan(record(**policies), HOURLY, START + 5 * HOUR)) == expected


def test_the_grace_says_from_when_on_one_is_missed() -> None:
    late = START + timedelta(seconds=90)
    assert made(plan(record(missed=Missed.SKIP, grace=90.0), HOURLY, late)) == [0]
    assert made(plan(record(missed=Missed.SKIP, grace=89.0), HOURLY, late)) == []


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_where_jobs_may_not_overlap_they_are_made_one_by_one(overlap: Overlap) -> None:
    late = START + 3 * HOUR
    first = plan(record(missed=Missed.ALL, overlap=overlap), HOURLY, late)
    assert (made(first), first.next_at, first.overlap) == ([0], START + HOUR, overlap)
    assert first.next_at is not None
    second = plan(record(first.next_at, missed=Missed.ALL, overlap=overlap), HOURLY, late)
    assert (made(second), second.next_at) == ([1], START + 2 * HOUR)


def test_what_makes_no_job_is_written_even_while_the_last_job_runs() -> None:
    firing = plan(
        record(missed=Missed.SKIP, overlap=Overlap.SKIP), HOURLY, START + timedelta(minutes=9)
    )
    assert (made(firing), missed(firing), firing.overlap) == ([], 1, Overlap.ALLOW)


def test_what_waited_for_the_last_job_under_watch_was_not_missed() -> None:
    waited = record(missed=Missed.SKIP, overlap=Overlap.QUEUE)
    firing = plan(waited, HOURLY, START + 9 * HOUR, attended=True)
    assert (made(firing), firing.next_at) == ([0], START + HOUR)


def test_of_a_long_outage_the_latest_are_looked_at_and_nothing_is_endless() -> None:
    year = START + timedelta(days=365)
    asked = []
    every_second = Every(1)

    def times(after: datetime) -> datetime | None:
        asked.append(after)
        return every_second(after)

    firing = plan(record(missed=Missed.ALL, missed_limit=10), times, year)
    assert firing.occurrences[-1].at == year
    assert firing.next_at == year + timedelta(seconds=1)
    assert len(firing.occurrences) <= 100
    assert len(asked) < 2_000


def test_the_latest_times_are_found_where_they_come_in_bursts() -> None:
    times = Cron("*/5 3 1 * *")  # twelve in one hour of a month
    first = datetime(2020, 1, 1, 3, tzinfo=UTC)
    until = datetime(2026, 1, 15, tzinfo=UTC)
    everything = due_times(times, first, until, most=10_000)
    assert due_times(times, first, until, most=30) == everything[-30:]


def test_the_last_occurrence_leaves_no_next_one() -> None:
    firing = plan(record(), lambda _: None, START)
    assert (made(firing), firing.next_at) == ([0], None)


def test_the_template_is_kept_but_for_id_and_times() -> None:
    template = replace(
        record().schedule.template, priority=7, queue="slow", tags=("a",), deadline_in=5.0
    )
    one = record()
    one = replace(one, schedule=replace(one.schedule, template=template))
    (job,) = plan(one, HOURLY, START).jobs
    assert replace(job, id=template.id, run_at=None, options="{}") == template
