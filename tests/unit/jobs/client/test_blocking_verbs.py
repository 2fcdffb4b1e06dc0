"""The blocking client's schedules, and jobs that begin where they are enqueued."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath import App, BlockingClient, Context, InvalidArgument, JobState
from offpath.errors import Conflict, ScheduleNotFound
from offpath.model.schedule import OccurrenceOutcome, Overlap
from offpath.runtime.clock import ManualClock
from tests.servers import migrate
from tests.sqlite_files import migrated_url

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("database_from_template")("schema", migrate))
    return "memory://" if request.param == "memory" else migrated_url(tmp_path / "jobs.db")


# -- schedules ------


@pytest.fixture
def scheduled() -> Iterator[tuple[App, BlockingClient[Any]]]:
    """An app whose time stands still, without a worker."""
    app = App(auto_start=False, clock=ManualClock(START))

    @app.task
    def report(region: str) -> str:
        return region

    with app.blocking as client:
        yield app, client


def test_a_schedule_lives_through_the_blocking_client(
    scheduled: tuple[App, BlockingClient[Any]],
) -> None:
    app, client = scheduled
    report, schedules = app.tasks["report"], client.schedules
    made = schedules.create("hourly", report.job("eu"), cron="@hourly", overlap="skip")
    assert (made.schedule.name, made.schedule.overlap) == ("hourly", Overlap.SKIP)
    assert schedules.create("hourly", report.job("eu"), cron="@hourly", overlap="skip") == made
    with pytest.raises(Conflict, match="another schedule 'hourly'"):
        schedules.create("hourly", report.job("us"), every=60)

    changed = schedules.change("hourly", report.job("us"), every=timedelta(minutes=10))
    assert (changed.schedule.overlap, changed.schedule.timing.seconds) == (Overlap.SKIP, 600)
    assert schedules.next("hourly", count=2) == [START + timedelta(minutes=n) for n in (10, 20)]
    schedules.pause("hourly")
    assert schedules.get("hourly").paused
    schedules.resume("hourly")
    assert [one.paused for one in schedules.list()] == [False]

    job_id = schedules.trigger("hourly")
    assert client.jobs.get(job_id).input == '{"region":"us"}'
    (occurrence,) = schedules.history("hourly", limit=5)
    assert (occurrence.outcome, occurrence.job) == (OccurrenceOutcome.TRIGGERED, job_id)
    schedules.delete("hourly")
    assert schedules.list() == []
    assert client.jobs.get(job_id).state is JobState.QUEUED


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger", "delete", "get", "next", "history"])
def test_a_schedule_that_is_not_there_is_named(
    scheduled: tuple[App, BlockingClient[Any]], verb: str
) -> None:
    schedules = scheduled[1].schedules
    with pytest.raises(ScheduleNotFound, match="no schedule 'nightly'"):
        getattr(schedules, verb)("nightly")
    with pytest.raises(ScheduleNotFound, match="no schedule 'nightly'"):
        schedules.change("nightly", every=5)


# -- begun here ------


def test_a_job_begins_here_without_any_worker(url: str) -> None:
    app = App(url, auto_start=False, migrate=True)
    threads: list[str] = []

    @app.task
    async def coroutine(n: int) -> int:
        threads.append(threading.current_thread().name)
        return 2 * n

    @app.task
    def function(ctx: Context, n: int) -> int:
        threads.append(threading.current_thread().name)
        ctx.enqueue(coroutine.job(n))
        return 3 * n

    with app.blocking as client:
        handles = [client.enqueue(task.job(7), inline=True) for task in (coroutine, function)]
        assert [handle.result(timeout=30) for handle in handles] == [14, 21]
        assert {handle.status().state for handle in handles} == {JobState.SUCCEEDED}
        assert [handle.created for handle in handles] == [True, True]
        queued = client.jobs.find(state="queued").items  # what it queued waits for a worker
        assert [one.parent for one in queued] == [handles[1].id]
    assert "offpath blocking client" in threads
    assert threading.current_thread().name not in threads


def test_closing_the_client_waits_for_what_was_begun() -> None:
    app = App(auto_start=False)
    begun, door, ended = threading.Event(), threading.Event(), threading.Event()

    @app.task
    def work() -> None:
        begun.set()
        assert door.wait(30)
        ended.set()

    with app.blocking as client:
        client.enqueue(work.job(), inline=True)
        assert begun.wait(30)
        door.set()
    assert ended.is_set()


def test_what_cannot_begin_at_once_is_refused_before_it_is_written(url: str) -> None:
    app = App(url, auto_start=False, migrate=True)

    @app.task
    async def work(n: int) -> int:
        return n

    with app.blocking as client:
        with pytest.raises(InvalidArgument, match="delay makes it due in 5 s"):
            client.enqueue(work.options(delay=5).job(1), inline=True)
        with pytest.raises(InvalidArgument, match="begins one job"):
            client.enqueue([work.job(1), work.job(2)], inline=True)  # type: ignore[call-overload]
        with pytest.raises(InvalidArgument, match="exclude each other"):
            client.enqueue(work.job(1), inline=True, within=object())
        assert client.jobs.count() == 0


def test_a_job_that_fails_here_goes_on_as_queued_work(tmp_path: Path) -> None:
    retry = offpath.RetryOptions(attempts=3, base=60, jitter=0.0)
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}", auto_start=False, migrate=True, retry=retry)
    failed = threading.Event()

    @app.task
    def fails() -> None:
        failed.set()
        raise OSError("not yet")

    with app.blocking as client:
        handle = client.enqueue(fails.job(), inline=True)
        assert failed.wait(30)
    with app.blocking as client:  # it was closed: the attempt has ended
        record = client.jobs.get(handle.id)
    assert (record.state, record.attempt) == (JobState.QUEUED, 2)
