"""A redriven join never runs beside the parts that it was to wait for; in every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import offpath
from offpath import App
from offpath.model.job import DeadReason, JobState
from offpath.operating import actions
from offpath.operating.actions import Asker
from offpath.operating.documents.actions import in_words
from offpath.operating.orders import ActionAsked
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from offpath.sweeps.redrive import RedriveDead

pytestmark = pytest.mark.needs("workflows")

ANN = Asker(name="ann", via="cli")


class Flow:
    """Three parts, of which one fails while there is a bug, and the join behind them."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.bug = True

        @app.task(retry=1)
        async def part(n: int) -> int:
            if self.bug and n == 3:
                raise ValueError("a bug")
            return n

        @app.task
        async def total(ctx: offpath.Context) -> int:
            return sum(await ctx.results(part))

        @app.task
        async def report(ctx: offpath.Context) -> int:
            return 10 * sum(await ctx.results(total))

        @app.task
        async def split(ctx: offpath.Context) -> offpath.Plan[None, int]:
            parts = [part.job(n) for n in (1, 2, 3)]
            return ctx.queue(*parts).next(total.job()).next(report.job())

        self.split, self.part, self.total = split, part, total

    async def fail(self) -> offpath.Handle[None, int]:
        """Run it with the bug: a part is dead, and so are the two behind it."""
        handle: offpath.Handle[None, int] = await self.split.enqueue()
        await self.app.worker().run_until_idle()
        assert await self.dead() == ["part", "report", "total"]
        self.bug = False
        return handle

    async def dead(self) -> list[str]:
        """The tasks of the dead jobs."""
        return sorted(one.task for one in (await self.app.dead.list()).items)

    async def work(self) -> None:
        await self.app.worker().run_until_idle()


@pytest.fixture
async def flow(store: Store, clock: ManualClock) -> AsyncIterator[Flow]:
    async with App(store=store, clock=clock, auto_start=False) as app:
        yield Flow(app)


@pytest.mark.parametrize("where", [{"everything": True}, {"task": "part"}])
async def test_the_parts_bring_back_all_that_waited_for_them(
    flow: Flow, where: dict[str, Any]
) -> None:
    handle = await flow.fail()
    redriven = {one.task: one.state for one in await flow.app.dead.redrive(**where)}
    assert redriven == {
        "part": JobState.QUEUED,
        "total": JobState.BLOCKED,
        "report": JobState.BLOCKED,
    }
    await flow.work()
    assert await flow.dead() == []
    assert await handle.group() == 60


async def test_parts_that_fail_again_end_their_join_again(flow: Flow) -> None:
    await flow.fail()
    flow.bug = True
    await flow.app.dead.redrive(task="part")
    await flow.work()
    assert await flow.dead() == ["part", "report", "total"]


async def test_a_join_alone_is_left_alone_unless_it_is_to_work_with_what_there_is(
    flow: Flow,
) -> None:
    await flow.fail()
    assert await flow.app.dead.redrive(task="total") == []
    assert await flow.app.jobs.redrive(task="total") == []
    redriven = await flow.app.dead.redrive(task="total", without_gates=True)
    assert [one.task for one in redriven] == ["total", "report"]
    await flow.work()
    jobs = await flow.app.store().get([one.id for one in redriven])
    assert {one.task: one.result for one in jobs} == {"total": "3", "report": "30"}


@pytest.mark.parametrize("when", [offpath.all_succeeded, offpath.all_settled])
async def test_a_join_that_was_cancelled_waits_for_its_parts_too(
    flow: Flow, store: Store, when: offpath.When
) -> None:
    flow.bug = False
    parts = [flow.part.job(n) for n in (1, 2)]
    *_, join = await flow.app.enqueue(
        [*parts, offpath.gate(on=parts, queue=[flow.total.job()], when=when)]
    )
    await join.cancel()
    (back,) = await flow.app.jobs.redrive(join.id)
    assert (back.id, back.state) == (join.id, JobState.BLOCKED)
    await flow.work()
    (job,) = await store.get([join.id])
    assert job.result == "3"


@pytest.mark.needs("operating")
async def test_an_operator_is_told_what_was_left_and_why(flow: Flow, clock: ManualClock) -> None:
    await flow.fail()
    clock.advance(1)
    asked = ActionAsked(verb="job.redrive", target={"where": {"reason": ["unsatisfiable"]}})
    done = await actions.carry_out(flow.app, await actions.ask(flow.app, asked, ANN))
    assert (done.changed, done.unchanged) == (0, 2)
    assert "2 still behind a gate: redrive the failed jobs" in in_words(done)


async def test_a_policy_puts_a_join_back_with_its_parts_and_never_before(
    flow: Flow, store: Store, clock: ManualClock
) -> None:
    await flow.fail()
    clock.advance(3600)
    joins = offpath.Redrive(reasons=(DeadReason.UNSATISFIABLE,))
    assert not (await RedriveDead(lambda: store, joins).move(10)).buckets
    parts = offpath.Redrive(reasons=(DeadReason.EXHAUSTED,))
    (ids,) = (await RedriveDead(lambda: store, parts).move(10)).buckets.values()
    assert len(ids) == 3
    await flow.work()
    assert await flow.dead() == []
