"""The start of attempts: from Python 3.12 on their first step is done at once."""

from __future__ import annotations

import asyncio
import sys
import time
from contextvars import ContextVar
from types import FrameType

import pytest

import offpath
from offpath.jobs.worker import starter
from offpath.jobs.worker.starter import Starter

eager = pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks begin at once from 3.12 on")
_seen: ContextVar[int] = ContextVar("_seen", default=0)


async def _note(said: list[str], name: str) -> None:
    said.append(name)


@eager
async def test_an_attempt_that_never_waits_has_ended_when_the_call_returns() -> None:
    said = list[str]()
    task = Starter().begin(asyncio.get_running_loop(), _note(said, "a"))
    assert task.done()
    assert said == ["a"]


@eager
async def test_behind_some_milliseconds_the_others_wait_for_the_next_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, start, said = asyncio.get_running_loop(), Starter(), list[str]()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    first = start.begin(loop, _note(said, "first"))
    now += starter.AT_ONCE
    late = start.begin(loop, _note(said, "late"))
    assert (first.done(), late.done()) == (True, False)
    await late
    again = start.begin(loop, _note(said, "again"))  # another turn, another allowance
    assert again.done()
    assert said == ["first", "late", "again"]


async def test_a_loop_with_a_task_factory_makes_every_task() -> None:
    loop, said, made = asyncio.get_running_loop(), list[str](), list[object]()

    def factory(
        loop: asyncio.AbstractEventLoop,
        coroutine: object,
        **more: object,
    ) -> asyncio.Task[None]:
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **more)  # type: ignore[arg-type]

    loop.set_task_factory(factory)  # type: ignore[arg-type]
    try:
        task = Starter().begin(loop, _note(said, "a"))
    finally:
        loop.set_task_factory(None)
    assert len(made) == 1
    assert not said
    await task


async def test_a_backlog_of_handlers_that_never_wait_needs_no_depth_of_calls() -> None:
    app = offpath.App("memory://", auto_start=False)
    depths = list[int]()

    @app.task
    async def quick() -> None:
        depth = 0
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back
        depths.append(depth)

    async with app:
        await app.enqueue([quick.job() for _ in range(3_000)])
        await app.worker(concurrency=20).run_until_idle()
    assert len(depths) == 3_000
    assert max(depths) - min(depths) < 20


async def test_each_handler_has_a_clean_context_and_its_own_task() -> None:
    app = offpath.App("memory://", auto_start=False)
    found = list[tuple[int, asyncio.Task[object] | None]]()

    @app.task
    async def looks() -> None:
        found.append((_seen.get(), asyncio.current_task()))
        _seen.set(1)

    async with app:
        await app.enqueue([looks.job() for _ in range(50)])
        await app.worker(concurrency=2).run_until_idle()
    assert {seen for seen, _ in found} == {0}
    assert len({id(task) for _, task in found}) == 50


async def test_a_handler_that_stops_its_worker_at_once_does_not_wait_for_itself() -> None:
    app = offpath.App("memory://", auto_start=False)
    ended = asyncio.Event()

    @app.task
    async def stops() -> None:
        assert worker.called_by_handler()
        ended.set()

    async with app:
        worker = app.worker()
        await stops.enqueue()
        await worker.run_until_idle()
    assert ended.is_set()


async def test_handlers_that_take_their_time_leave_the_loop_to_others_in_between() -> None:
    app = offpath.App("memory://", auto_start=False)
    begun = list[float]()
    turns = list[int]()
    counting = 0

    @app.task
    async def works() -> None:
        begun.append(time.perf_counter())
        turns.append(counting)
        until = time.perf_counter() + starter.AT_ONCE
        while time.perf_counter() < until:
            pass

    async def count() -> None:
        nonlocal counting
        while len(begun) < 8:
            counting += 1
            await asyncio.sleep(0)

    async with app:
        await app.enqueue([works.job() for _ in range(8)])
        counter = asyncio.create_task(count())
        await app.worker(concurrency=1).run_until_idle()
        await counter
    assert len(set(turns)) >= 4, "one turn of the loop had them all"
