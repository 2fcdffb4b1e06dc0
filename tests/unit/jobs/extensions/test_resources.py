"""Resources: opened once a process at first use, closed in reverse after the last handler."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import offpath
from offpath.batch_tasks import BatchContext
from offpath.errors import TaskError
from offpath.runtime.clock import ManualClock
from offpath.testing import drain, swap_resource

NOTES: list[str] = []


@pytest.fixture(autouse=True)
def _notes() -> None:
    NOTES.clear()


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    async with offpath.App(auto_start=False, clock=ManualClock()) as app:
        yield app


async def open_http() -> AsyncIterator[str]:
    NOTES.append("open http")
    async with asyncio.timeout(60):  # must be left in the task that entered it
        yield "http"
    NOTES.append("close http")


def open_file() -> Iterator[str]:
    NOTES.append(f"open file in {'main' if _main() else 'a thread'}")
    yield "file"
    NOTES.append(f"close file in {'main' if _main() else 'a thread'}")


def _main() -> bool:
    return threading.current_thread() is threading.main_thread()


async def test_handlers_of_each_kind_share_what_is_opened_once(app: offpath.App) -> None:
    http, file = app.resource(open_http), app.resource(open_file)

    @app.task
    async def one(ctx: offpath.Context) -> str:
        return await ctx.resource(http)

    @app.task
    def two(ctx: offpath.Context) -> str:
        return ctx.blocking(ctx.resource(http)) + ctx.blocking(ctx.resource(file))

    @app.batch_task(size=2, max_wait=0)
    async def three(ctx: BatchContext, items: list[int]) -> list[str]:
        return [await item.resource(file) + await ctx.resource(http) for item in ctx.items]

    async with app.worker():
        assert await (await one.enqueue()).result(timeout=10) == "http"
        assert await (await two.enqueue()).result(timeout=10) == "httpfile"
        assert await (await three.enqueue(1)).result(timeout=10) == "filehttp"
        assert NOTES == ["open http", "open file in a thread"]
    assert NOTES[2:] == ["close file in a thread", "close http"]


async def test_those_who_ask_at_once_share_one_opening_that_no_cancellation_ends(
    app: offpath.App,
) -> None:
    go_on, asked = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[int]:
        NOTES.append("open")
        asked.set()
        await go_on.wait()
        yield 5

    resource = app.resource(slow)

    @app.task
    async def use(ctx: offpath.Context) -> int:
        return await ctx.resource(resource)

    async with app.worker():
        first = await use.enqueue()
        await asyncio.wait_for(asked.wait(), 10)
        second = await use.enqueue()
        await first.cancel()
        with pytest.raises(offpath.JobCancelled):
            await first.result(timeout=10)
        go_on.set()
        assert await second.result(timeout=10) == 5
    assert NOTES == ["open"]


async def test_what_fails_to_open_fails_the_attempt_and_is_opened_anew_by_the_next(
    app: offpath.App,
) -> None:
    async def flaky() -> AsyncIterator[int]:
        NOTES.append("open")
        if len(NOTES) == 1:
            raise ConnectionError("not yet")
        yield 7

    resource = app.resource(flaky)

    @app.task(retry=offpath.RetryOptions(attempts=2, base=0, jitter=0))
    async def use(ctx: offpath.Context) -> int:
        return await ctx.resource(resource)

    handle = await use.enqueue()
    await drain(app)
    assert await handle.result() == 7
    job = await app.jobs.get(handle.id)
    assert job.attempt == 2


async def never() -> AsyncIterator[int]:
    return
    yield


async def twice() -> AsyncIterator[int]:
    yield 1
    yield 2


def never_sync() -> Iterator[int]:
    return
    yield


@pytest.mark.parametrize("make", [never, never_sync])
async def test_one_that_yields_nothing_fails_the_attempt(app: offpath.App, make: Any) -> None:
    resource = app.resource(make)

    @app.task(retry=1)
    async def use(ctx: offpath.Context) -> int:
        value: int = await ctx.resource(resource)
        return value

    handle = await use.enqueue()
    await drain(app)
    with pytest.raises(offpath.JobDead, match="without a yield"):
        await handle.result()


async def test_a_fault_in_closing_is_reported_and_the_others_are_closed() -> None:
    told: list[tuple[str, str]] = []
    app = offpath.App(
        auto_start=False, on_error=lambda error, phase: told.append((phase, str(error)))
    )
    http, bad = app.resource(open_http), app.resource(twice)

    @app.task
    async def use(ctx: offpath.Context) -> None:
        await ctx.resource(http)
        await ctx.resource(bad)

    async with app, app.worker():
        await (await use.enqueue()).result(timeout=10)
    assert told == [("resource", "resource twice yields more than once")]
    assert NOTES == ["open http", "close http"]


async def test_one_that_hangs_in_closing_does_not_hold_up_the_stop() -> None:
    told: list[str] = []
    app = offpath.App(auto_start=False, on_error=lambda error, phase: told.append(str(error)))

    async def hangs() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    resource = app.resource(hangs)

    @app.task
    async def use(ctx: offpath.Context) -> int:
        return await ctx.resource(resource)

    async with app:
        worker = app.worker(drain_timeout=0.2)
        await worker.start()
        await (await use.enqueue()).result(timeout=10)
        async with asyncio.timeout(5):
            await worker.stop()
    assert any("was not closed within" in one for one in told)


async def test_of_two_workers_the_last_one_closes(app: offpath.App) -> None:
    http = app.resource(open_http)

    @app.task
    async def use(ctx: offpath.Context) -> str:
        return await ctx.resource(http)

    async with app.worker() as other:
        async with app.worker():
            await (await use.enqueue()).result(timeout=10)
        assert NOTES == ["open http"]
        assert not other.stopping
    assert NOTES == ["open http", "close http"]


async def test_a_test_puts_another_value_in_its_place(app: offpath.App) -> None:
    http = app.resource(open_http)

    @app.task
    async def use(ctx: offpath.Context) -> str:
        return await ctx.resource(http)

    with swap_resource(http, "fake") as fake:
        handle = await use.enqueue()
        await drain(app)
        assert await handle.result() == fake == "fake"
    assert NOTES == []
    handle = await use.enqueue()
    await drain(app)
    assert await handle.result() == "http"


def plain() -> int:
    return 1


@pytest.mark.parametrize("make", [plain, 3, asyncio.sleep])
def test_what_yields_nothing_is_refused_where_it_is_declared(make: Any) -> None:
    with pytest.raises(TaskError, match="generator function that yields it once"):
        offpath.App().resource(make)


async def test_asking_for_the_function_itself_says_what_to_give(app: offpath.App) -> None:
    @app.task(retry=1)
    async def use(ctx: offpath.Context) -> None:
        await ctx.resource(open_http)  # type: ignore[arg-type]

    handle = await use.enqueue()
    await drain(app)
    with pytest.raises(offpath.JobDead, match=r"what app\.resource"):
        await handle.result()


async def test_a_child_of_a_fork_shares_nothing_and_closes_nothing_of_its_parents(
    app: offpath.App,
) -> None:
    http = app.resource(open_http)
    parents = app._shared()
    await parents.get(http)
    kept = app._forked()
    assert isinstance(kept, tuple)
    assert parents in kept  # as long as the process lives, so that nothing is closed by collection
    await app._shared().close(1.0)
    assert NOTES == ["open http"]
    await parents.close(1.0)
    assert NOTES == ["open http", "close http"]
