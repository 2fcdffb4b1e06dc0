"""``app.signal``, its blocking twin, and time that passes in a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from offpath import App, Context, InvalidArgument, JobState, SignalTimeout
from offpath.config import Settings
from offpath.errors import TooLarge
from offpath.runtime.ids import new_id
from offpath.testing import ManualClock, drain, pass_time

DAY = timedelta(days=1)


class Home:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.app = App(auto_start=False, clock=self.clock, settings=Settings(max_input_bytes=1_000))

        @self.app.task
        async def ask(ctx: Context) -> Any:
            return await ctx.wait_for("answer", key=None)

        @self.app.task
        async def keyed(ctx: Context, key: str) -> Any:
            return await ctx.wait_for("answer", key=key)

        self.ask, self.keyed = ask, keyed


@pytest.fixture
async def home() -> AsyncIterator[Home]:
    made = Home()
    async with made.app:
        yield made


@pytest.mark.parametrize("form", ["job", "handle", "id", "upper"])
async def test_a_signal_finds_its_job_in_every_form(home: Home, form: str) -> None:
    job = home.ask.job()
    handle = await home.app.enqueue(job)
    target: Any = {"job": job, "handle": handle, "id": job.id, "upper": job.id.upper()}[form]
    await drain(home.app)
    assert await home.app.signal(target, "answer", {"yes": True})
    await drain(home.app)
    assert await handle.result() == {"yes": True}


async def test_a_signal_with_an_id_is_sent_once(home: Home) -> None:
    first, second = [await home.keyed.enqueue("order-7") for _ in range(2)]
    known = new_id()
    assert await home.app.signal("order-7", "answer", 1, id=known)
    await drain(home.app)
    assert not await home.app.signal("order-7", "answer", 1, id=known)
    await drain(home.app)
    states = [(await one.status()).state for one in (first, second)]
    assert sorted(states) == [JobState.BLOCKED, JobState.SUCCEEDED]


async def test_a_signal_that_nobody_took_is_forgotten_in_time(home: Home) -> None:
    job = home.ask.job()
    await home.app.signal(job, "answer", 1, keep=60)
    home.clock.advance(61)
    handle = await home.app.enqueue(job)
    await drain(home.app)
    assert (await handle.status()).state is JobState.BLOCKED


async def test_what_cannot_be_sent_is_refused(home: Home) -> None:
    with pytest.raises(InvalidArgument, match="a job, a handle, an id or a key"):
        await home.app.signal(7, "answer")
    with pytest.raises(InvalidArgument, match="event"):
        await home.app.signal("key", "")
    with pytest.raises(InvalidArgument, match="signal's id"):
        await home.app.signal("key", "answer", id="no uuid")
    with pytest.raises(TooLarge, match="max_input_bytes"):
        await home.app.signal("key", "answer", "x" * 1_000)


async def test_blocking_code_signals_too(home: Home) -> None:
    handle = await home.ask.enqueue()
    await drain(home.app)
    assert await asyncio.to_thread(home.app.blocking.signal, handle, "answer", 7)
    await drain(home.app)
    assert await handle.result() == 7


async def test_time_that_passes_runs_each_job_at_its_time(home: Home) -> None:
    seen: list[timedelta] = []
    start = home.clock.now()

    @home.app.task
    async def remind(ctx: Context) -> None:
        for number in range(3):
            try:
                await ctx.wait_for("answer", timeout=DAY)
            except SignalTimeout:
                await ctx.step(f"late {number}", lambda: seen.append(ctx.now() - start))
            await ctx.sleep(DAY)

    await remind.enqueue()
    counts = await pass_time(home.app, home.clock, timedelta(days=10))
    assert seen == [1 * DAY, 3 * DAY, 5 * DAY]
    assert (counts.waiting, counts.snoozed, counts.succeeded) == (3, 3, 1)
    assert home.clock.now() - start == timedelta(days=10)


async def test_a_job_that_a_step_enqueues_is_there_once(home: Home) -> None:
    ran: list[str] = []
    failing = [True]

    @home.app.task
    async def mail(to: str) -> None:
        ran.append(to)

    @home.app.task
    async def work(ctx: Context) -> None:
        async def ask() -> str:
            handle = await mail.enqueue("ada")
            if failing.pop():
                raise ConnectionError("after the mail was enqueued")
            return handle.id

        await ctx.step("ask", ask)

    failing.insert(0, False)
    await work.enqueue()
    counts = await pass_time(home.app, home.clock, 60)
    assert (counts.retried, counts.succeeded) == (1, 2)
    assert ran == ["ada"]
