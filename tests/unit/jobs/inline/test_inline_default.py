"""Tasks whose jobs begin at once by default, and what is queued all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import offpath
from offpath import App, JobState, Limit
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from tests.unit.jobs.worker.rig import breathe


@pytest.fixture
async def app() -> AsyncIterator[App]:
    clock = ManualClock()
    made = App(store=MemoryStore(clock), clock=clock, auto_start=False)

    @made.task(inline=True)
    async def double(n: int) -> int:
        return 2 * n

    @made.task(inline=True, limit=Limit(max_running=1))
    async def limited() -> None: ...

    yield made
    closing = asyncio.ensure_future(made.close())
    while not closing.done():
        clock.advance(0.25)
        await breathe()


async def state(app: App, job: str) -> JobState:
    await breathe()
    return (await app.jobs.get(job)).state


async def test_a_task_may_have_its_jobs_begin_at_once(app: App) -> None:
    """By the task's verb, by the app's, and by name; no worker runs."""
    double = app.tasks["double"]
    assert double.inline
    one = await double.enqueue(1)
    other = await app.enqueue(double.job(2))
    named = await app.enqueue_by_name("double", n=3)
    for handle, wanted in ((one, 2), (other, 4), (named, 6)):
        assert await state(app, handle.id) is JobState.SUCCEEDED
        assert await handle.result() == wanted


async def test_what_is_in_the_way_queues_the_job(app: App) -> None:
    double = app.tasks["double"]
    later = await double.options(delay=60).enqueue(1)
    several = await app.enqueue([double.job(2), double.job(3)])
    held = await app.tasks["limited"].enqueue()
    for handle in (later, *several):
        assert await state(app, handle.id) is JobState.QUEUED
    assert await state(app, held.id) in {JobState.QUEUED, JobState.BLOCKED}


async def test_one_enqueue_may_say_otherwise(app: App) -> None:
    double = app.tasks["double"]
    queued = await double.options(inline=False).enqueue(1)
    also = await app.enqueue(double.job(2), inline=False)
    assert await state(app, queued.id) is await state(app, also.id) is JobState.QUEUED


def test_the_blocking_client_does_so_too(tmp_path: object) -> None:
    made = App(f"sqlite:///{tmp_path}/a.db", migrate=True, auto_start=False)

    @made.task(inline=True)
    def triple(n: int) -> int:
        return 3 * n

    with made.blocking as client:
        handle = client.enqueue(triple.job(2))
        assert handle.result(timeout=10) == 6
    assert not offpath.App().task(name="plain")(lambda: None).inline
