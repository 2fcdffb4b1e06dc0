"""A bound connection: its verbs join the transaction, are seen by metrics, and wake workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import offpath
from tests.integration.within.callers import sqlalchemy_url

AppMaker = Callable[[str], offpath.App]
UrlOf = Callable[[str], str]


def queued(app: offpath.App) -> float:
    counter = app.metrics.counter("offpath_jobs_queued_total", task="double", queue="default")
    return counter.value


@pytest.mark.parametrize("commit", [True, False])
async def test_what_a_bound_session_writes_shares_its_fate(
    commit: bool, url_of: UrlOf, make_app: AppMaker
) -> None:
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    url = url_of("postgres")
    app = make_app(url)
    engine = create_async_engine(sqlalchemy_url(url, "asyncpg"))
    async with AsyncSession(engine) as session:
        jobs = app.bound(session)
        handle = await jobs.enqueue(app.tasks["double"].job(2))
        several = await jobs.enqueue([app.tasks["double"].job(n) for n in (3, 4)])
        message = await jobs.publish("made", {"n": 2})
        await jobs.append("numbers", "made", "n-2", {"n": 2})
        assert repr(jobs) == "<Bound to AsyncSession>"
        await (session.commit() if commit else session.rollback())
    await engine.dispose()
    found = await app.jobs.find()
    ids = {handle.id, *(one.id for one in several)}
    assert {job.id for job in found.items} == (ids if commit else set())
    assert [one.id for one in (await app.messages.find()).items] == ([message] if commit else [])


async def test_a_blocking_bound_connection_is_counted_and_told_to_hooks(
    url_of: UrlOf, make_app: AppMaker
) -> None:
    import psycopg

    url = url_of("postgres")
    told: list[str] = []
    app = offpath.App(url, auto_start=False, on_event=lambda event: told.append(event.kind.value))

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    def in_a_thread() -> None:
        with psycopg.connect(url) as connection:
            jobs = app.blocking.bound(connection)
            jobs.enqueue(double.job(1))
            jobs.publish("made")
            jobs.append("numbers", "made", "n")

    async with app:
        await asyncio.to_thread(in_a_thread)
        await asyncio.sleep(0)
        assert queued(app) == 1
        assert told == ["queued"]
        assert await app.jobs.count() == 1


def test_without_an_event_loop_it_is_counted_too_and_an_async_hook_is_reported(
    url_of: UrlOf,
) -> None:
    import psycopg

    url = url_of("postgres")
    reported: list[str] = []

    async def hook(event: offpath.JobEvent) -> None: ...

    app = offpath.App(
        url,
        auto_start=False,
        on_event=hook,
        on_error=lambda error, phase: reported.append(type(error).__name__),
    )

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    with psycopg.connect(url) as connection:
        app.blocking.bound(connection).enqueue(double.job(1))
    assert queued(app) == 1
    assert reported == ["HookUnheard"]


class Woken:
    """Hears hints of a store in another process's place: over its own connection."""

    def __init__(self) -> None:
        self.hints: list[Any] = []
        self.work = asyncio.Event()

    def __call__(self, hint: Any) -> None:
        self.hints.append(hint)
        if hint.value == "work":
            self.work.set()


async def test_a_session_that_commits_wakes_workers_elsewhere_and_one_that_rolls_back_does_not(
    url_of: UrlOf, make_app: AppMaker
) -> None:
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    url = url_of("postgres")
    here, there = make_app(url), make_app(url)
    await here.open()
    await there.open()
    woken = Woken()
    stop = there.store().listen(woken)
    await asyncio.wait_for(woken.work.wait(), 20)  # it tells of the connection itself
    woken.work.clear()
    engine = create_async_engine(sqlalchemy_url(url, "psycopg"))
    async with AsyncSession(engine) as session:
        await here.bound(session).enqueue(here.tasks["double"].job(1))
        await session.rollback()
        await here.bound(session).enqueue(here.tasks["double"].job(2))
        await there.jobs.count()
        assert not woken.work.is_set()
        await session.commit()
        await asyncio.wait_for(woken.work.wait(), 20)
    await engine.dispose()
    stop()
    assert await there.jobs.count() == 1
