"""Jobs that a handler queues run in the order in which it lists them, on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import offpath
from offpath import App, Context, Plan
from offpath.model.unsent import unsent
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START

pytestmark = pytest.mark.needs("workflows")

LISTED = [7, 3, 11, 0, 19, 5, 2, 17, 13, 1, 23, 8]
"""In no order by themselves."""


class World:
    """An app whose jobs note the order in which they ran."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.clock = clock
        self.ran: list[int] = []
        self.app = App(store=store, clock=clock, auto_start=False)

        @self.app.task(name="part")
        async def part(number: int) -> None:
            self.ran.append(number)

        self.part = part

    def jobs(self, numbers: list[int], **options: Any) -> list[offpath.Job[None, None]]:
        return [self.part.options(**options).job(number) for number in numbers]

    async def run(self) -> list[int]:
        """The jobs that one slot runs, in their order."""
        await self.app.worker(concurrency=1).run_until_idle()
        return self.ran


@pytest.fixture
async def world(store: Store, clock: ManualClock) -> AsyncIterator[World]:
    made = World(store, clock)
    async with made.app:
        yield made


async def test_children_run_in_the_listed_order(world: World) -> None:
    @world.app.task
    async def parent(ctx: Context) -> Plan[None, None]:
        made = world.jobs(sorted(LISTED))  # the order of listing counts, not that of making
        made.sort(key=lambda job: LISTED.index(int(unsent(job).new.input.strip('{"number: }'))))
        return ctx.queue(*made)

    await parent.enqueue()
    assert await world.run() == LISTED


async def test_children_of_nested_plans_run_in_the_listed_order(world: World) -> None:
    @world.app.task
    async def parent(ctx: Context) -> Plan[None, None]:
        first = ctx.queue(*world.jobs(LISTED[:4]))
        second = ctx.queue(*world.jobs(LISTED[5:9]))
        return ctx.queue(first, *world.jobs(LISTED[4:5]), second, *world.jobs(LISTED[9:]))

    await parent.enqueue()
    assert await world.run() == LISTED


async def test_what_follows_runs_in_the_listed_order(world: World) -> None:
    @world.app.task
    async def parent(ctx: Context) -> Plan[None, None]:
        return ctx.queue(*world.jobs([100])).next(*world.jobs(LISTED))

    await parent.enqueue()
    assert await world.run() == [100, *LISTED]


async def test_what_a_gate_holds_runs_in_the_listed_order(world: World) -> None:
    @world.app.task
    async def parent(ctx: Context) -> Plan[None, None]:
        (first,) = world.jobs([100])
        return ctx.queue(first, offpath.gate(on=[first], queue=world.jobs(LISTED)))

    await parent.enqueue()
    assert await world.run() == [100, *LISTED]


async def test_what_is_delayed_runs_in_the_listed_order_when_its_time_has_come(
    world: World,
) -> None:
    @world.app.task
    async def parent(ctx: Context) -> Plan[None, None]:
        return ctx.queue(*world.jobs(LISTED), delay=5)

    await parent.enqueue()
    assert await world.run() == []
    world.clock.advance(4.999)
    assert await world.run() == []
    world.clock.advance(0.001)
    assert await world.run() == LISTED


async def test_what_a_context_enqueues_runs_in_the_order_of_the_calls(world: World) -> None:
    @world.app.task
    async def parent(ctx: Context) -> None:
        ctx.enqueue(world.jobs(LISTED[:6]))
        for job in world.jobs(LISTED[6:]):
            ctx.enqueue(job)

    await parent.enqueue()
    assert await world.run() == LISTED


async def test_what_is_sent_in_a_handler_runs_in_its_order(world: World) -> None:
    @world.app.task(retry=2)
    async def parent(ctx: Context) -> None:
        if ctx.attempt == 1:
            await world.app.enqueue(world.jobs(LISTED[:3]))
            raise ConnectionError("once")
        await world.app.enqueue(world.jobs(LISTED))
        await ctx.step("more", more)

    async def more() -> None:
        await world.app.enqueue(world.jobs([n + 100 for n in LISTED]))

    await parent.enqueue()
    assert await world.run() == LISTED[:3]
    world.ran.clear()
    world.clock.advance(60)
    ran = await world.run()  # the clock stands still, so the two lists are due at once
    assert [n for n in ran if n < 100] == LISTED
    assert [n - 100 for n in ran if n >= 100] == LISTED


async def test_priority_goes_before_the_order(world: World) -> None:
    @world.app.task
    async def parent(ctx: Context) -> Plan[None, None]:
        return ctx.queue(*world.jobs(LISTED), *world.jobs([100, 101], priority=1))

    await parent.enqueue()
    assert await world.run() == [100, 101, *LISTED]


async def test_all_that_is_due_at_once_is_due_when_the_parent_ends(world: World) -> None:
    """A microsecond each apart, and none of them later than now."""
    made: list[str] = []

    @world.app.task
    async def parent(ctx: Context) -> Plan[None, None]:
        jobs = world.jobs(LISTED)
        made.extend(job.id for job in jobs)
        return ctx.queue(*jobs)

    await parent.enqueue()
    await world.app.worker(concurrency=1).run_until_idle(limit=1)
    due = {one.id: one.run_at for one in await world.app.store().get(made)}
    gaps = [round((START - due[each]).total_seconds() * 1e6) for each in made]
    assert gaps == list(range(len(LISTED) - 1, -1, -1))


async def test_a_parent_that_runs_again_names_the_same_jobs_in_whichever_order(
    world: World,
) -> None:
    made: list[dict[int, str]] = []

    @world.app.task(retry=2)
    async def parent(ctx: Context) -> Plan[None, None]:
        numbers = LISTED if made else sorted(LISTED)
        jobs = world.jobs(numbers)
        made.append(dict(zip(numbers, (job.id for job in jobs), strict=True)))
        plan = ctx.queue(*jobs)
        if len(made) == 1:
            raise ConnectionError("once")
        return plan

    await parent.enqueue()
    await world.run()
    world.clock.advance(60)
    assert await world.run() == LISTED
    assert made[0] == made[1]
