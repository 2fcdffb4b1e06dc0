"""An app on memory for a while: in coroutines, in blocking code, and back again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from offpath import App, InvalidArgument, JobState
from offpath.jobs.client.core import core_of
from offpath.runtime.clock import SystemClock
from offpath.testing import ManualClock, drain, swap_to_memory


async def test_the_apps_own_store_is_left_alone(tmp_path: Any) -> None:
    app = App(f"sqlite:///{tmp_path}/work.db")

    @app.task
    async def work() -> int:
        return 1

    async with app:
        real = await work.enqueue()
        async with swap_to_memory(app) as memory:
            assert await app.jobs.count() == 0
            handle = await work.enqueue()
            await drain(app)
            assert await handle.result() == 1
            assert app.clock is memory.clock
        assert await app.jobs.count() == 1
        assert (await real.status()).state is JobState.QUEUED
        assert isinstance(app.clock, SystemClock)


async def test_each_swap_begins_empty(app: App) -> None:
    @app.task
    async def work() -> None: ...

    for _ in range(2):
        async with swap_to_memory(app):
            assert await app.jobs.count() == 0
            await work.enqueue()


async def test_it_is_put_back_when_the_test_fails(app: App) -> None:
    before = (app.clock, app._backend)
    with pytest.raises(ZeroDivisionError):
        async with swap_to_memory(app) as memory:
            memory.store.fail("close")
            raise ZeroDivisionError
    assert (app.clock, app._backend) == before


async def test_it_can_run_a_worker(app: App) -> None:
    @app.task
    async def work() -> int:
        return 1

    async with swap_to_memory(app, clock=SystemClock(), auto_start=True):
        assert await (await work.enqueue()).result(timeout=5) == 1


def test_blocking_code_swaps_as_well(app: App) -> None:
    @app.task
    def work(n: int) -> int:
        return n * 2

    with swap_to_memory(app) as memory:
        handle = app.blocking.enqueue(work.job(4))
        app.blocking.run(lambda: drain(app))
        assert handle.result() == 8
        assert "lease" in memory.store.calls
    with swap_to_memory(app):
        assert app.blocking.jobs.count() == 0


def test_a_loop_that_rests_is_used_to_close_it(app: App) -> None:
    loop = asyncio.new_event_loop()
    try:
        with swap_to_memory(app):
            loop.run_until_complete(app.open())
        assert core_of(app).loop() is None
    finally:
        loop.close()


async def test_in_a_coroutine_it_says_how(app: App) -> None:
    with pytest.raises(InvalidArgument, match="async with"):
        swap_to_memory(app).__enter__()


async def test_one_swap_is_one_swap(app: App) -> None:
    clock = ManualClock()
    async with swap_to_memory(app, clock=clock) as outer:
        with pytest.raises(InvalidArgument, match="nest"):
            outer.install()
        async with swap_to_memory(app) as inner:
            assert app.clock is inner.clock
        assert app.clock is clock
        assert repr(outer).endswith(" on>")
    assert repr(outer).endswith(" off>")
    outer.uninstall()
