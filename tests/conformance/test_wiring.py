"""Joins and steps are known by what they are, not by where they stand; and wiring is checked.

Cases T2-2 and T2-3: results that went to the wrong steps after another order, joins that ran twice
or not at all, and joins over what is not there.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

import offpath
from offpath import Context, Plan, at_least, gate
from offpath.errors import GateError
from offpath.model.job import JobFilter, JobState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store

pytestmark = pytest.mark.needs("workflows")

STEPS = 40
CHILDREN = 300
BREAKS = 3


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> offpath.App:
    app = offpath.App(store=store, clock=clock, auto_start=False)
    await app.open()
    return app


async def run(app: offpath.App, clock: ManualClock) -> None:
    """All that is due, now and after some retries."""
    for _ in range(BREAKS + 2):
        await app.worker().run_until_idle()
        clock.advance(3_600)


async def test_forty_steps_in_any_order_have_each_its_own_result(
    app: offpath.App, clock: ManualClock
) -> None:
    """The attempt breaks in the middle three times, and begins its steps in another order."""
    calls: Counter[int] = Counter()
    recorded: set[int] = set()
    repeated: list[int] = []
    dice = random.Random(3)

    async def measure(number: int) -> int:
        calls[number] += 1
        if number in recorded:
            repeated.append(number)
        await asyncio.sleep(0)
        return number * number

    @app.task(retry=BREAKS + 1)
    async def wide(ctx: Context) -> dict[str, int]:
        left = BREAKS + 1 - ctx.attempt
        order = list(range(STEPS))
        dice.shuffle(order)
        found: dict[str, int] = {}

        async def one(number: int) -> None:
            found[str(number)] = await ctx.step(f"step-{number}", measure, number)
            recorded.add(number)

        for part in (order[: STEPS // 2], order[STEPS // 2 :]):
            async with asyncio.TaskGroup() as group:
                for number in part:
                    group.create_task(one(number))
            if left:
                raise RuntimeError("broken in the middle")
        return found

    handle = await wide.enqueue()
    await run(app, clock)
    assert await handle.result() == {str(number): number * number for number in range(STEPS)}
    assert repeated == [], "what was recorded is not called again"
    assert set(calls) == set(range(STEPS))


async def test_three_hundred_children_with_random_ends_are_joined_once(
    app: offpath.App, clock: ManualClock
) -> None:
    dice = random.Random(5)
    ends = [dice.choice(["well", "well", "late", "badly"]) for _ in range(CHILDREN)]
    joined: list[int] = []

    @app.task
    async def child(end: str) -> None:
        if end == "badly":
            raise offpath.Abort("as told")

    @app.task
    async def join() -> None:
        joined.append(1)

    @app.task
    async def root(ctx: Context) -> Plan[None, None]:
        late = child.options(delay=60)
        children = [late.job(end) if end == "late" else child.job(end) for end in ends]
        return ctx.queue(*children).next(join.job(), when=offpath.all_settled)

    await root.enqueue()
    await run(app, clock)
    assert joined == [1]
    counts = await app.store().count(JobFilter(tasks=("child",)))
    assert sum(one.count for one in counts) == CHILDREN
    dead = sum(one.count for one in counts if one.state is JobState.DEAD)
    assert dead == ends.count("badly")


async def test_three_equal_children_are_three(app: offpath.App, clock: ManualClock) -> None:
    ran: list[int] = []

    @app.task
    async def child(number: int) -> None:
        ran.append(number)

    @app.task
    async def root(ctx: Context) -> Plan[None, None]:
        return ctx.queue(child.job(7), child.job(7), child.job(7))

    await root.enqueue()
    await run(app, clock)
    assert ran == [7, 7, 7]


class Wiring:
    """A task to watch and one to hold."""

    def __init__(self, app: offpath.App) -> None:
        @app.task
        async def watched() -> None:
            return None

        @app.task
        async def held() -> None:
            return None

        self.watched, self.held = watched, held


async def nothing_is_written(app: offpath.App) -> bool:
    return await app.store().count(JobFilter()) == []


@pytest.mark.parametrize("kind", ["text", "none", "job", "number", "ids that are none"])
async def test_a_join_over_what_is_no_list_of_jobs_is_refused(app: offpath.App, kind: str) -> None:
    wiring = Wiring(app)
    wrong: dict[str, Any] = {
        "text": "watched",
        "none": None,
        "job": wiring.watched.job(),
        "number": 3,
        "ids that are none": ["watched"],
    }
    with pytest.raises(GateError, match="gate's `on`"):
        gate(wrong[kind], [wiring.held.job()])
    assert await nothing_is_written(app)


async def test_a_join_over_an_id_that_is_not_there_is_refused(app: offpath.App) -> None:
    wiring = Wiring(app)
    unknown = wiring.watched.job().id
    with pytest.raises(GateError, match=unknown):
        await app.enqueue([gate([unknown], [wiring.held.job()])])
    assert await nothing_is_written(app)


async def test_one_job_that_is_named_three_times_is_never_two(app: offpath.App) -> None:
    wiring = Wiring(app)
    one = wiring.watched.job()
    with pytest.raises(GateError, match="it would never fire"):
        gate([one, one, one], [wiring.held.job()], when=at_least(2))
    assert await nothing_is_written(app)


async def test_a_generator_of_jobs_is_a_list_of_them(app: offpath.App, clock: ManualClock) -> None:
    wiring = Wiring(app)
    jobs = [wiring.watched.job() for _ in range(3)]
    held = wiring.held.job()
    await app.enqueue([*jobs, gate((each for each in jobs), [held], when=at_least(2))])
    await run(app, clock)
    assert (await app.jobs.get(held.id)).state is JobState.SUCCEEDED
