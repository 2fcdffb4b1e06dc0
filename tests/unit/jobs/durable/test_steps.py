"""Durable steps: done once in a job's life, whatever becomes of its attempts."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from functools import partial

import pytest
from msgspec import Struct

from offpath.errors import StoreUnavailable
from offpath.jobs.handler.context import Context
from offpath.jobs.handler.durable.steps import is_async
from offpath.jobs.values.run import Interruption
from offpath.model.job import JobState
from offpath.store.protocol import JobRedrive
from tests.unit.jobs.worker.rig import Rig, breathe, until


class Receipt(Struct):
    number: int
    at: datetime


def _noted(done: list[str], what: str, value: int) -> int:
    done.append(what)
    return value


def _receipt(number: int) -> Receipt:
    return Receipt(number, datetime(2026, 1, 1, tzinfo=UTC))


async def test_a_retried_attempt_passes_its_finished_steps(rig: Rig) -> None:
    done: list[str] = []

    async def charge(amount: int) -> Receipt:
        done.append("charge")
        return _receipt(amount)

    def ship(receipt: Receipt, *, to: str) -> str:
        done.append("ship")
        if done.count("ship") == 1:
            raise ConnectionError("no truck")
        return f"{receipt.number} to {to}"

    async def order(ctx: Context) -> str:
        receipt = await ctx.step("charge", charge, 500)
        assert receipt == _receipt(500)
        return await ctx.step("ship", ship, receipt, to="Bern")

    rig.task(order)
    job = await rig.enqueue("order")
    await rig.run()
    rig.clock.advance(10)
    await rig.run()
    record = await rig.record(job)
    assert (record.state, record.result) == (JobState.SUCCEEDED, '"500 to Bern"')
    assert done == ["charge", "ship", "ship"]


async def test_a_step_recorded_before_its_worker_died_is_not_done_again(rig: Rig) -> None:
    done: list[str] = []
    hang = asyncio.Event()

    async def order(ctx: Context) -> int:
        first = await ctx.step("first", _noted, done, "first", 1)
        if len(done) == 1:
            done.append("hangs")
            await hang.wait()
        return first + await ctx.step("second", _noted, done, "second", 2)

    rig.task(order)
    job = await rig.enqueue("order")
    dying = await rig.started()
    await until(lambda: done == ["first", "hangs"])
    await rig.memory.deregister(dying.id)  # as the store sees a worker that died
    assert [one.state for one in await rig.memory.rescue(limit=10, max_deliveries=3)] == ["queued"]
    await rig.run()
    assert (await rig.record(job)).result == "3"
    assert done == ["first", "hangs", "second"]
    hang.set()


async def test_steps_are_read_once_an_attempt_and_not_at_all_in_the_first(rig: Rig) -> None:
    async def three(ctx: Context) -> None:
        await asyncio.gather(*(ctx.step(name, int) for name in ("a", "b", "c")))
        if ctx.attempt == 1:
            raise ValueError("again")

    rig.task(three)
    await rig.enqueue("three")
    await rig.run()
    assert (rig.faulty.calls.count("steps"), rig.faulty.calls.count("put_step")) == (0, 3)
    rig.clock.advance(10)
    await rig.run()
    assert (rig.faulty.calls.count("steps"), rig.faulty.calls.count("put_step")) == (1, 3)


async def test_the_same_name_twice_is_an_error(rig: Rig) -> None:
    async def twice(ctx: Context) -> None:
        await ctx.step("a", int)
        await ctx.step("a", str)

    rig.task(twice)
    job = await rig.enqueue("twice", attempts=1)
    await rig.run()
    failure = (await rig.record(job)).failure
    assert failure is not None
    assert (failure.type, "step 'a'" in failure.message) == ("StepError", True)


async def test_a_step_that_raises_records_nothing(rig: Rig) -> None:
    async def bad() -> int:
        raise ValueError("no")

    async def work(ctx: Context) -> None:
        await ctx.step("bad", bad)

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.run()
    assert await rig.memory.steps(job) == {}


async def test_a_sync_step_of_an_async_handler_runs_in_a_thread(rig: Rig) -> None:
    async def work(ctx: Context) -> bool:
        own = threading.get_ident()
        return await ctx.step("where", threading.get_ident) != own

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.run()
    assert (await rig.record(job)).result == "true"


async def test_a_sync_handlers_blocking_step_runs_in_its_own_thread(rig: Rig) -> None:
    async def loop_thread() -> int:
        return threading.get_ident()

    def work(ctx: Context) -> list[bool]:
        own = threading.get_ident()
        return [
            ctx.blocking(ctx.step("own", threading.get_ident)) == own,
            ctx.blocking(ctx.step("loop", loop_thread)) == own,
        ]

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.run()
    assert (await rig.record(job)).result == "[true,false]"


async def test_a_sync_handlers_step_may_raise_what_it_likes(rig: Rig) -> None:
    def stop() -> None:
        raise StopIteration("odd")

    def work(ctx: Context) -> str:
        try:
            ctx.blocking(ctx.step("odd", stop))
        except RuntimeError as error:
            return str(error)
        return ""

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.run()
    assert "StopIteration" in str((await rig.record(job)).result)


async def test_a_result_over_the_limit_is_refused(rig: Rig) -> None:
    async def work(ctx: Context) -> None:
        await ctx.step("big", lambda: "x" * 200)

    rig.task(work)
    job = await rig.enqueue("work", attempts=1)
    await rig.run(max_result_bytes=100)
    failure = (await rig.record(job)).failure
    assert failure is not None
    assert failure.type == "ResultError"
    assert await rig.memory.steps(job) == {}


async def test_a_result_that_is_not_as_annotated_is_refused(rig: Rig) -> None:
    def wrong() -> int:
        return "text"  # type: ignore[return-value]

    async def work(ctx: Context) -> None:
        await ctx.step("wrong", wrong)

    rig.task(work)
    job = await rig.enqueue("work", attempts=1)
    await rig.run()
    failure = (await rig.record(job)).failure
    assert failure is not None
    assert "result of step 'wrong' of task 'work'" in failure.message


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_an_outage_while_a_step_is_recorded_fails_the_attempt(
    rig: Rig, *, after: bool
) -> None:
    done: list[int] = []

    def counted() -> int:
        done.append(1)
        return len(done)

    async def work(ctx: Context) -> int:
        return await ctx.step("a", counted)

    rig.task(work)
    job = await rig.enqueue("work")
    rig.faulty.fail("put_step", StoreUnavailable("away"), after=after)
    await rig.run()
    assert (await rig.record(job)).attempt == 2
    rig.clock.advance(10)
    await rig.run()
    assert (await rig.record(job)).result == ("1" if after else "2")


async def test_a_finished_step_is_recorded_although_the_worker_stops(rig: Rig) -> None:
    async def work(ctx: Context) -> int:
        return await ctx.step("a", lambda: 7)

    rig.task(work)
    job = await rig.enqueue("work")
    gate = rig.faulty.doors["put_step"] = asyncio.Event()
    worker = await rig.started()
    await until(lambda: "put_step" in rig.faulty.calls)
    (run,) = worker._engine.hand.runs()
    run.interrupt(Interruption.STOP)
    await breathe()
    gate.set()
    await until(lambda: worker.counts.released == 1)
    assert await rig.memory.steps(job) == {"a": "7"}


async def test_a_redriven_job_goes_on_where_it_had_come_to(rig: Rig) -> None:
    done: list[str] = []

    async def work(ctx: Context) -> str:
        await ctx.step("a", done.append, "a")
        if len(done) == 1:
            done.append("fails")
            raise ValueError("once")
        return "ok"

    rig.task(work)
    job = await rig.enqueue("work", attempts=1)
    await rig.run()
    assert await rig.state(job) is JobState.DEAD
    await rig.memory.redrive([JobRedrive(id=job)])
    await rig.run()
    assert await rig.state(job) is JobState.SUCCEEDED
    assert done == ["a", "fails"]


@pytest.mark.parametrize("name", ["", "~own", "x" * 201, "a\nb"])
async def test_a_name_that_cannot_be_is_refused(rig: Rig, name: str) -> None:
    async def work(ctx: Context) -> None:
        await ctx.step(name, int)

    rig.task(work)
    job = await rig.enqueue("work", attempts=1)
    await rig.run()
    failure = (await rig.record(job)).failure
    assert failure is not None
    assert failure.type == "InvalidArgument"


class Callable:
    async def __call__(self) -> int:
        return 1


async def _coroutine() -> int:
    return 1


def test_what_can_be_awaited_gets_no_thread() -> None:
    assert is_async(_coroutine)
    assert is_async(partial(partial(_coroutine)))
    assert is_async(Callable())
    assert not is_async(int)
    assert not is_async(_noted)
