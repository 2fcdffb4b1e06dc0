"""``perform``: one attempt with all that surrounds a handler, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

import offpath
from offpath import Abort, App, Context, InvalidArgument, JobState, Snooze
from offpath.extensions import Running
from offpath.testing import NeverIdle, perform, swap_to_memory


async def test_it_returns_what_the_handler_returned_as_its_type(app: App) -> None:
    @app.task
    async def when(ctx: Context, day: datetime) -> datetime:
        assert ctx.attempt == 1
        assert ctx.headers["tenant"] == "acme"
        return day

    @app.task
    def double(n: int) -> int:
        return 2 * n

    day = datetime(2026, 1, 1, tzinfo=offpath.testing.ManualClock().now().tzinfo)
    async with swap_to_memory(app):
        assert await perform(app, when.options(headers={"tenant": "acme"}).job(day)) == day
        job = double.job(4)
        assert await perform(app, job) == 8
        assert (await app.jobs.get(job.id)).state is JobState.SUCCEEDED


@pytest.mark.parametrize("raised", [ValueError("no"), Snooze(60), Abort("never")])
@pytest.mark.parametrize("threaded", [False, True])
async def test_it_raises_what_the_handler_raised(app: App, raised: Any, threaded: bool) -> None:
    async def fail() -> None:
        raise raised

    def fail_in_a_thread() -> None:
        raise raised

    task: Any = app.task(fail_in_a_thread if threaded else fail)
    async with swap_to_memory(app):
        with pytest.raises(type(raised)) as found:
            await perform(app, task.job())
        assert found.value is raised
        assert task.around == (), "the task is as it was"


async def test_what_is_around_the_handler_is_entered_and_may_raise(app: App) -> None:
    entered: list[str] = []

    @contextmanager
    def closed(run: Running) -> Iterator[None]:
        entered.append(run.task)
        if run.attempt == 1:
            raise PermissionError("closed")
        yield

    @app.task(around=[closed])
    async def work() -> None: ...

    async with swap_to_memory(app):
        with pytest.raises(PermissionError):
            await perform(app, work.job())
    assert entered == ["work"]


async def test_other_jobs_stay_where_they_are(app: App) -> None:
    ran: list[int] = []

    @app.task
    async def work(n: int) -> None:
        ran.append(n)

    async with swap_to_memory(app):
        await work.enqueue(1)
        await perform(app, work.job(2))
        assert ran == [2]
        assert await app.jobs.count(state="queued") == 1


async def test_a_job_that_would_not_run_now_is_refused(app: App) -> None:
    @app.task
    async def work() -> None: ...

    async with swap_to_memory(app):
        with pytest.raises(InvalidArgument):
            await perform(app, work.options(delay=60).job())
        job = work.job()
        await perform(app, job)
        with pytest.raises(InvalidArgument, match="is there already"):
            await perform(app, job)


async def test_a_handler_that_does_not_end_is_told_of(app: App) -> None:
    @app.task
    async def wait() -> None:
        await asyncio.Event().wait()

    async with swap_to_memory(app):
        with pytest.raises(NeverIdle, match="still runs"):
            await perform(app, wait.job(), timeout=0.05)
