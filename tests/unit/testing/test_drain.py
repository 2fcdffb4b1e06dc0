"""Running what is due, to the end: what runs, what does not, and when it gives up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from offpath import App, Context, InvalidArgument, JobState, RetryOptions, Snooze
from offpath.testing import (
    ManualClock,
    MemorySwap,
    NeverIdle,
    drain,
    drain_blocking,
    swap_to_memory,
)

Memory = MemorySwap[ManualClock]


async def test_it_runs_what_is_due_and_what_that_leads_to(app: App, memory: Memory) -> None:
    ran: list[int] = []

    @app.task
    async def count_down(ctx: Context, n: int) -> None:
        ran.append(n)
        if n:
            ctx.enqueue(count_down.job(n - 1))

    await count_down.enqueue(3)
    counts = await drain(app)
    assert (counts.succeeded, counts.total) == (4, 4)
    assert ran == [3, 2, 1, 0]
    assert (await drain(app)).total == 0


async def test_sync_handlers_run_too(app: App, memory: Memory) -> None:
    threads: list[str] = []

    @app.task
    def work() -> None:
        threads.append(threading.current_thread().name)

    await work.enqueue()
    assert (await drain(app)).succeeded == 1
    assert threads != [threading.current_thread().name]


async def test_retries_and_delays_run_when_the_clock_says_so(app: App, memory: Memory) -> None:
    attempts: list[int] = []

    @app.task(retry=RetryOptions(attempts=3, base=10, jitter=0))
    async def flaky(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ConnectionError
        return "done"

    @app.task
    async def later() -> None: ...

    handle = await flaky.enqueue()
    await later.options(delay=3600).enqueue()
    assert (await drain(app)).retried == 1
    assert (await drain(app)).total == 0
    memory.clock.advance(10)
    assert (await drain(app)).succeeded == 1
    assert attempts == [1, 2]
    assert await handle.result() == "done"
    memory.clock.advance(3600)
    assert (await drain(app)).succeeded == 1


async def test_counts_tell_how_attempts_ended(app: App, memory: Memory) -> None:
    @app.task(retry=1)
    async def dies() -> None:
        raise ValueError

    @app.task
    async def snoozes() -> None:
        raise Snooze(60)

    await dies.enqueue()
    await snoozes.enqueue()
    counts = await drain(app)
    assert (counts.dead, counts.snoozed, counts.total) == (1, 1, 2)


async def test_only_the_queues_asked_for(app: App, memory: Memory) -> None:
    @app.task
    async def work() -> None: ...

    await work.options(queue="mail").enqueue()
    await work.options(queue="bulk").enqueue()
    assert (await drain(app, queues=["mail"])).total == 1
    assert await app.jobs.count(state="queued", queue="bulk") == 1


async def test_work_without_end_is_said_to_be_so(app: App, memory: Memory) -> None:
    @app.task
    async def again(ctx: Context) -> None:
        ctx.enqueue(again.job())

    await again.enqueue()
    with pytest.raises(NeverIdle, match=r"after 7 attempts .* 1 of again"):
        await drain(app, limit=7)
    assert await app.jobs.count(state="succeeded") == 7
    assert all(one.gone_at for one in await app.workers())


async def test_as_many_as_the_limit_is_no_fault(app: App, memory: Memory) -> None:
    @app.task
    async def work() -> None: ...

    await app.enqueue([work.job() for _ in range(5)])
    assert (await drain(app, limit=5)).succeeded == 5


@pytest.mark.parametrize("kind", ["async", "stubborn"])
async def test_a_handler_that_hangs_is_named_and_ended(
    app: App, memory: Memory, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.testing.due_work._LAST_WAIT", 0.2)
    ended: list[str] = []
    release = asyncio.Event()

    @app.task
    async def hangs() -> None:
        try:
            await release.wait()
        except asyncio.CancelledError:
            if kind == "async":
                ended.append("cancelled")
                raise
            await release.wait()

    handle = await hangs.enqueue()
    with pytest.raises(NeverIdle, match=rf"hangs \(job {handle.id}, attempt 1\)"):
        await drain(app, timeout=0.05)
    assert ended == (["cancelled"] if kind == "async" else [])
    release.set()


async def test_a_store_that_does_not_answer_is_said_to_be_so(
    app: App, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.testing.due_work._LAST_WAIT", 0.2)

    @app.task
    async def work() -> None: ...

    await work.enqueue()
    memory.store.hang("lease")
    with pytest.raises(NeverIdle, match="the store has not answered"):
        await drain(app, timeout=0.05)


async def test_a_cancelled_drain_leaves_nothing_behind(app: App, memory: Memory) -> None:
    begun = asyncio.Event()

    @app.task
    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    handle = await hangs.enqueue()
    running = asyncio.ensure_future(drain(app))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await handle.status()).state is JobState.QUEUED
    assert all(one.gone_at for one in await app.workers())


async def test_it_refuses_to_race_with_a_worker() -> None:
    async with App() as app:
        with pytest.raises(InvalidArgument, match="auto_start=False"):
            await drain(app)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "3", True])
async def test_limits_are_checked(app: App, memory: Memory, bad: Any) -> None:
    with pytest.raises(InvalidArgument):
        await drain(app, limit=bad)


async def test_it_drains_a_file_as_well(tmp_path: Any) -> None:
    clock = ManualClock()
    async with App(f"sqlite:///{tmp_path}/work.db", clock=clock) as app:

        @app.task
        async def work() -> int:
            return 7

        handle = await work.options(delay=60).enqueue()
        assert (await drain(app)).total == 0
        clock.advance(60)
        assert (await drain(app)).succeeded == 1
        assert await handle.result() == 7


async def test_sync_handlers_run_in_the_callers_thread_when_it_says_so(
    app: App, memory: Memory
) -> None:
    threads: list[str] = []

    @app.task
    def work(ctx: Context) -> None:
        threads.append(threading.current_thread().name)
        ctx.enqueue(fail.job())

    @app.task(retry=1)
    def fail() -> None:
        threads.append(threading.current_thread().name)
        raise LookupError

    await work.enqueue()
    counts = await drain(app, here=True)
    assert (counts.succeeded, counts.dead) == (1, 1)
    assert threads == [threading.current_thread().name] * 2


async def test_a_handler_here_is_told_that_the_loop_stands_still(app: App, memory: Memory) -> None:
    @app.task(retry=1)
    def work() -> None:
        app.blocking.jobs.count()

    handle = await work.enqueue()
    assert (await drain(app, here=True)).dead == 1
    (failure,) = (await handle.status()).failures
    assert "would block the event loop" in failure.message


def test_blocking_code_runs_sync_handlers_in_its_own_thread(app: App) -> None:
    seen: list[Any] = []
    mine = threading.local()
    mine.transaction = "open"

    @app.task
    def work(ctx: Context) -> int:
        seen.append(mine.transaction)
        ctx.blocking(ctx.step("note", lambda: seen.append(mine.transaction)))
        return app.blocking.jobs.count()

    @app.task
    async def later() -> None:
        seen.append(hasattr(mine, "transaction"))

    with swap_to_memory(app):
        handle = app.blocking.enqueue(work.job())
        assert drain_blocking(app).succeeded == 1
        assert seen == ["open", "open"]
        assert handle.result() == 1
        app.blocking.enqueue(later.job())
        drain_blocking(app)
        assert seen[2:] == [False]


def test_a_handler_here_may_wait_for_what_it_begins(app: App) -> None:
    threads: list[str] = []

    @app.task
    def inner() -> int:
        threads.append(threading.current_thread().name)
        return 7

    @app.task
    def outer() -> int:
        return app.blocking.enqueue(inner.job(), inline=True).result(timeout=10)

    with swap_to_memory(app):
        handle = app.blocking.enqueue(outer.job())
        drain_blocking(app)
        assert handle.result() == 7
        assert threads != [threading.current_thread().name]


async def test_sync_handlers_of_inbound_messages_run_here_too(app: App, memory: Memory) -> None:
    threads: list[str] = []

    @app.inbox("shop")
    def note(event: Any) -> None:
        threads.append(threading.current_thread().name)

    await app.accept("shop", "k-1", {"a": 1})
    await drain(app, here=True)
    assert threads == [threading.current_thread().name]
