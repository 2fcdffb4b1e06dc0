"""Batch tasks: what a handler knows of its call and of each job in it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from offpath import Context, JobState
from offpath.batch_tasks import BatchContext, BatchItem
from offpath.errors import TaskError
from tests.unit.jobs.batches.bench import LONG, Bench
from tests.unit.jobs.worker.rig import breathe

Body = Callable[[BatchContext, list[int]], None]


def looking(bench: Bench, body: Body, size: int = 2, **settings: Any) -> Any:
    """A batch task whose handler does ``body`` and doubles its inputs."""

    async def look(ctx: BatchContext, numbers: list[int]) -> list[int]:
        body(ctx, numbers)
        return [2 * number for number in numbers]

    return bench.app.batch_task(size=size, max_wait=LONG, **settings)(look)


async def test_each_job_has_its_item_in_the_order_of_the_inputs(bench: Bench) -> None:
    seen: dict[int, tuple[str, int, str, Any]] = {}

    def body(ctx: BatchContext, numbers: list[int]) -> None:
        assert (len(ctx), ctx.task) == (len(numbers), "look")
        for item, number in zip(ctx.items, numbers, strict=True):
            seen[number] = (item.id, item.attempt, item.queue_name, item.deadline)

    look = looking(bench, body, size=3)
    options = look.options(queue="vip", deadline=50)
    handles = [await look.enqueue(1), await options.enqueue(2), await look.enqueue(3)]
    now = bench.clock.now()
    await bench.idle()
    assert [seen[number][0] for number in (1, 2, 3)] == [handle.id for handle in handles]
    assert {one[1] for one in seen.values()} == {1}
    assert seen[2][2] == "vip"
    assert (seen[2][3] - now).total_seconds() == pytest.approx(50, abs=1)
    assert seen[1][3] is None


async def test_the_attempts_of_the_jobs_of_one_call_differ(bench: Bench) -> None:
    attempts: list[list[int]] = []

    @bench.app.batch_task(size=2, max_wait=LONG)
    async def look(ctx: BatchContext, numbers: list[int]) -> list[int | Exception]:
        attempts.append([item.attempt for item in ctx.items])
        return [
            OSError("no") if item.attempt == 1 and n else n
            for item, n in zip(ctx.items, numbers, strict=True)
        ]

    await look.enqueue(1)
    await bench.idle()
    bench.clock.advance(2)
    await look.enqueue(0)
    await bench.idle()
    assert [sorted(one) for one in attempts] == [[1], [1, 2]]


async def test_a_job_alone_has_a_call_of_one(bench: Bench) -> None:
    seen: list[Any] = []

    def body(ctx: BatchContext, numbers: list[int]) -> None:
        (item,) = ctx.items
        assert type(item) is BatchItem
        seen.append((item.id, numbers, bool(ctx.cancelled)))

    handle = await looking(bench, body).options(inline=True).enqueue(4)
    assert await handle.result(timeout=5) == 8
    assert seen == [(handle.id, [4], False)]


async def test_a_sync_handler_has_one_too(bench: Bench) -> None:
    @bench.app.batch_task(size=2, max_wait=LONG)
    def claim(ctx: BatchContext, names: list[str]) -> list[bool]:
        assert threading.current_thread() is not threading.main_thread()
        return [ctx.blocking(item.claim(name)) for item, name in zip(ctx.items, names, strict=True)]

    handles = [await claim.enqueue(name) for name in ("a", "a")]
    await bench.idle()
    assert sorted([await handle.result() for handle in handles]) == [False, True]


async def test_a_call_may_be_made_by_hand(bench: Bench) -> None:
    seen: list[BatchContext] = []
    look = looking(bench, lambda ctx, _: seen.append(ctx))
    await look.enqueue(1)
    await bench.idle()
    assert list(await look(seen[0], [4, 5])) == [8, 10]


# -- must it end? ------


async def test_one_job_that_must_end_tells_its_item_and_not_the_call(bench: Bench) -> None:
    contexts: list[BatchContext] = []

    @bench.app.batch_task(size=2, max_wait=LONG)
    async def held(ctx: BatchContext, numbers: list[int]) -> list[int]:
        contexts.append(ctx)
        await ctx.items[0].cancelled
        await bench.door.wait()
        return numbers

    first, second = await held.enqueue(1), await held.enqueue(2)
    async with bench.app.worker():
        await breathe(100)
        (ctx,) = contexts
        assert not ctx.cancelled
        await first.cancel()
        await bench.pass_time(2)
        assert [bool(item.cancelled) for item in ctx.items] == [True, False]
        assert ctx.items[0].interruption == "cancel"
        assert not ctx.cancelled
        bench.door.set()
        await breathe(100)
        assert await second.result() == 2
        assert await bench.state(first) is JobState.CANCELLED


async def test_a_call_in_a_thread_learns_that_nobody_wants_it_any_more(bench: Bench) -> None:
    begun = threading.Event()

    @bench.app.batch_task(size=2, max_wait=LONG)
    def wait(ctx: BatchContext, numbers: list[int]) -> list[int]:
        begun.set()
        assert ctx.cancelled.wait(30)
        return numbers

    handles = [await wait.enqueue(number) for number in (1, 2)]
    async with bench.app.worker():
        await asyncio.to_thread(begun.wait, 30)
        for handle in handles:
            await handle.cancel()
        while {await bench.state(handle) for handle in handles} != {JobState.CANCELLED}:
            await bench.pass_time(0.5)


# -- telling ------


async def test_progress_is_each_jobs_own_and_its_last_word_is_kept(bench: Bench) -> None:
    @bench.app.batch_task(size=100, max_wait=LONG)
    async def tell(ctx: BatchContext, numbers: list[int]) -> list[int | Exception]:
        for item, number in zip(ctx.items, numbers, strict=True):
            item.progress(number, 10)
        return [number if number > 1 else OSError("no") for number in numbers]

    handles = [await tell.enqueue(number) for number in range(50)]
    await bench.idle()
    told = [await handle.progress() for handle in handles]
    assert [one.done for one in told if one is not None] == list(range(50))


async def test_log_records_say_which_job_and_which_call(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def body(ctx: BatchContext, numbers: list[int]) -> None:
        ctx.logger.warning("call")
        ctx.items[0].logger.warning("item")

    look = looking(bench, body, log_context=lambda number: {"number": number})
    handle = await look.enqueue(7)
    with caplog.at_level(logging.WARNING, logger="offpath"):
        await bench.idle()
    call, item = [one.__dict__ for one in caplog.records if one.msg in {"call", "item"}]
    assert (call["task"], call["jobs"]) == ("look", 1)
    assert (item["job_id"], item["number"]) == (handle.id, 7)


# -- what there is not ------


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda ctx: ctx.publish, r"each job's own, so ask its item, ctx.items\[0\].publish"),
        (lambda ctx: ctx.id, "ask its item"),
        (lambda ctx: ctx.items[0].step, "BatchItem has no 'step': a call is for many jobs"),
        (lambda ctx: ctx.items[0].sleep, "make it a plain task"),
        (lambda ctx: ctx.wait_for, "make it a plain task"),
        (lambda ctx: ctx.nothing, "BatchContext has no 'nothing'$"),
    ],
)
async def test_what_a_call_has_not_says_where_it_is(
    bench: Bench, ask: Callable[[Any], Any], text: str
) -> None:
    seen: list[BatchContext] = []
    await looking(bench, lambda ctx, _: seen.append(ctx)).enqueue(1)
    await bench.idle()
    with pytest.raises(AttributeError, match=text):
        ask(seen[0])


def test_each_kind_of_task_has_its_own_context(bench: Bench) -> None:
    async def plain(ctx: BatchContext, numbers: list[int]) -> list[int]:
        return numbers

    async def batch(ctx: Context, numbers: list[int]) -> list[int]:
        return numbers

    with pytest.raises(TaskError, match="a BatchContext is for"):
        bench.app.task(plain)
    with pytest.raises(TaskError, match=r"its context is an offpath\.batch_tasks\.BatchContext"):
        bench.app.batch_task(size=2)(batch)  # type: ignore[arg-type]


async def test_a_reference_shows_no_inputs(bench: Bench) -> None:
    shown: list[str] = []
    await looking(bench, lambda ctx, _: shown.extend((repr(ctx), repr(ctx.items[0])))).enqueue(77)
    await bench.idle()
    assert shown[0] == "<BatchContext task='look' items=1>"
    assert shown[1].startswith("<BatchItem task='look' id=")
    assert "77" not in shown[0]
