"""Errors of the program: they end a job as dead at once, so what it did is not done again."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from offpath import App, Context, JobState, Plan
from offpath.config import Settings
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store

pytestmark = pytest.mark.needs("workflows")

Handler = Callable[[Context, Counter[str]], Awaitable[Any]]
LIMIT = 1_000


async def _wrong_result(_: Context, done: Counter[str]) -> int:
    done["effect"] += 1
    return "no number"  # type: ignore[return-value]


async def _unwritable_result(_: Context, done: Counter[str]) -> Any:
    done["effect"] += 1
    return object()


async def _large_result(_: Context, done: Counter[str]) -> str:
    done["effect"] += 1
    return "x" * LIMIT


async def _large_value(ctx: Context, done: Counter[str]) -> Plan[str, str]:
    done["effect"] += 1
    return ctx.result("x" * LIMIT, append=operator.add)


async def _unwritable_value(ctx: Context, done: Counter[str]) -> Plan[Any, Any]:
    done["effect"] += 1
    return ctx.queue(ctx.result(object()))


async def _step_of_no_type(ctx: Context, done: Counter[str]) -> None:
    def pay() -> Callable[[], None]:
        raise AssertionError("nothing is done that cannot be recorded")

    done["effect"] += 1
    await ctx.step("pay", pay)


async def _wrong_step(ctx: Context, done: Counter[str]) -> int:
    def pay() -> int:
        done["effect"] += 1
        return "paid"  # type: ignore[return-value]

    return await ctx.step("pay", pay)


async def _unwritable_step(ctx: Context, done: Counter[str]) -> None:
    def pay() -> Any:
        done["effect"] += 1
        return float("nan")

    await ctx.step("pay", pay)


async def _large_step(ctx: Context, done: Counter[str]) -> None:
    def pay() -> str:
        done["effect"] += 1
        return "x" * LIMIT

    await ctx.step("pay", pay)


async def _step_twice(ctx: Context, done: Counter[str]) -> None:
    def pay() -> None:
        done["effect"] += 1
        raise RuntimeError("no answer")

    try:
        await ctx.step("pay", pay)
    except RuntimeError:
        await ctx.step("pay", pay)


async def _sleep_twice(ctx: Context, done: Counter[str]) -> None:
    done["effect"] += 1
    await ctx.sleep_until(ctx.now(), name="nap")
    await ctx.sleep_until(ctx.now(), name="nap")


async def _awaited_queue(ctx: Context, done: Counter[str]) -> Any:
    done["effect"] += 1
    return await ctx.queue()  # type: ignore[misc]


async def _awaited_result(ctx: Context, done: Counter[str]) -> Any:
    done["effect"] += 1
    return await ctx.result(5)  # type: ignore[misc]


CASES: dict[str, tuple[Handler, str, str]] = {
    "a result not as annotated": (_wrong_result, "unsettleable", "result of task"),
    "a result that nothing can write": (_unwritable_result, "unsettleable", "result of task"),
    "a result over the limit": (_large_result, "unsettleable", "max_result_bytes is 500"),
    "a group value over the limit": (_large_value, "unsettleable", "max_result_bytes is 500"),
    "a group value that nothing can write": (_unwritable_value, "unsettleable", "object"),
    "a step of no type": (_step_of_no_type, "unsettleable", "step .pay."),
    "a step not as annotated": (_wrong_step, "unsettleable", "result of step 'pay'"),
    "a step that nothing can write": (_unwritable_step, "unsettleable", "result of step 'pay'"),
    "a step over the limit": (_large_step, "unsettleable", "step 'pay'.*max_result_bytes is 500"),
    "a step twice": (_step_twice, "invalid_plan", "step 'pay'.*twice"),
    "a sleep twice": (_sleep_twice, "invalid_plan", "sleep 'nap'.*twice"),
    "a plan awaited": (_awaited_queue, "invalid_plan", "return it, do not await it"),
    "a result awaited": (_awaited_result, "invalid_plan", "return it, do not await it"),
}


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    made = App(store=store, clock=clock, auto_start=False, settings=Settings(max_result_bytes=500))
    async with made:
        yield made


@pytest.mark.parametrize("name", CASES)
async def test_it_costs_no_retry_and_its_effect_is_there_once(
    app: App, clock: ManualClock, name: str
) -> None:
    handler, reason, said = CASES[name]
    done: Counter[str] = Counter()

    async def work(ctx: Context) -> Any:
        return await handler(ctx, done)

    work.__annotations__["return"] = handler.__annotations__["return"]
    handle = await app.task(name="work", retry=5)(work).enqueue()
    for _ in range(3):
        await app.worker().run_until_idle()
        clock.advance(3_600)
    record = await app.jobs.get(handle.id)
    assert (record.state, record.reason, len(record.failures)) == (JobState.DEAD, reason, 1)
    assert record.failure is not None
    assert re.search(said, record.failure.message)
    assert done == {"effect": 1}
