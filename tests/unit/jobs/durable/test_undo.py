"""Compensation: what a job had done is undone in reverse order, once, when it ends in failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from offpath.errors import StoreRejected
from offpath.jobs.handler.context import Context
from offpath.jobs.worker.upkeep import CHECK_BATCH, turn_of
from offpath.model.job import JobFilter, JobRecord, JobState
from offpath.model.tally import Verdict
from offpath.store.protocol import JobRedrive
from tests.unit.jobs.worker.rig import Rig, breathe, until


class Saga:
    """Charge, reserve, ship: the last one fails."""

    def __init__(self, rig: Rig, *, fails: bool = True, hangs: bool = False) -> None:
        self.rig = rig
        self.log: list[str] = []
        self.fails = fails
        self.hang = asyncio.Event()
        self.hangs = hangs
        rig.task(self._saga, name="saga")
        for name in ("refund", "release"):
            rig.task(self._undo(name), name=name)

    def _undo(self, name: str) -> Any:
        async def undo() -> None:
            self.log.append(name)

        return undo

    async def _saga(self, ctx: Context) -> None:
        await ctx.on_abort(self.rig.job("refund"))
        await ctx.step("charge", self.log.append, "charge")
        await ctx.on_abort(self.rig.job("release"))
        await ctx.step("reserve", self.log.append, "reserve")
        if self.hangs:
            await self.hang.wait()
        if self.fails:
            raise ConnectionError("no truck")

    async def undone(self, job: str) -> list[JobRecord]:
        page = await self.rig.memory.find(JobFilter(parent=job), newest=False)
        return sorted(page.items, key=lambda one: one.enqueued_at)


async def test_a_failed_saga_is_undone_in_reverse_order(rig: Rig) -> None:
    saga = Saga(rig)
    job = await rig.enqueue("saga", attempts=2)
    await rig.run()
    assert saga.log == ["charge", "reserve"]  # a retry is not an end
    rig.clock.advance(10)
    await rig.run()
    assert saga.log == ["charge", "reserve", "release", "refund"]
    undone = await saga.undone(job)
    assert [one.state for one in undone] == [JobState.SUCCEEDED] * 2
    assert len({one.group_id for one in undone}) == 1
    assert undone[0].group_id != job
    await rig.run()
    assert len(saga.log) == 4


async def test_success_undoes_nothing(rig: Rig) -> None:
    saga = Saga(rig, fails=False)
    job = await rig.enqueue("saga")
    await rig.run()
    assert saga.log == ["charge", "reserve"]
    assert await saga.undone(job) == []


async def test_a_cancelled_saga_is_undone(rig: Rig) -> None:
    saga = Saga(rig, hangs=True)
    job = await rig.enqueue("saga")
    worker = await rig.started()
    await until(lambda: "reserve" in saga.log)
    await rig.store.cancel([job])
    await rig.pass_time(3)
    assert await rig.state(job) is JobState.CANCELLED
    assert saga.log == ["charge", "reserve", "release", "refund"]
    assert worker.counts.succeeded == 2


async def test_a_saga_is_undone_as_soon_as_it_ended(rig: Rig) -> None:
    saga = Saga(rig)
    worker = await rig.started()
    await breathe(100)
    await rig.enqueue("saga", attempts=1)
    await until(lambda: worker.counts.succeeded == 2)  # the clock has not moved
    assert saga.log == ["charge", "reserve", "release", "refund"]


async def test_a_saga_that_is_cancelled_while_it_waits_is_undone(rig: Rig) -> None:
    log: list[str] = []

    async def refund() -> None:
        log.append("refund")

    async def saga(ctx: Context) -> None:
        await ctx.on_abort(rig.job("refund"))
        await ctx.sleep(3600)

    rig.task(refund)
    rig.task(saga)
    job = await rig.enqueue("saga")
    await rig.run()
    assert [one.state for one in await rig.store.cancel([job])] == [JobState.CANCELLED]
    await rig.run()
    assert log == ["refund"]


async def test_a_saga_whose_workers_were_lost_is_undone(rig: Rig) -> None:
    saga = Saga(rig, hangs=True)
    job = await rig.enqueue("saga")
    dying = await rig.started()
    await until(lambda: "reserve" in saga.log)
    await rig.memory.deregister(dying.id)
    await rig.memory.rescue(limit=10, max_deliveries=1)
    assert await rig.state(job) is JobState.DEAD
    await rig.run()
    assert saga.log == ["charge", "reserve", "release", "refund"]


async def test_a_saga_that_sleeps_past_its_deadline_is_undone(rig: Rig) -> None:
    log: list[str] = []

    async def refund() -> None:
        log.append("refund")

    async def saga(ctx: Context) -> None:
        await ctx.on_abort(rig.job("refund"))
        await ctx.wait_for("never")

    rig.task(refund)
    rig.task(saga)
    await rig.enqueue("saga", deadline_in=60.0)
    await rig.run()
    rig.clock.advance(61)
    await rig.run()
    assert log == ["refund"]


async def test_an_undo_job_that_dies_holds_up_none_of_the_others(rig: Rig) -> None:
    saga = Saga(rig)

    async def broken() -> None:
        raise ValueError("no release")

    rig.task(broken, name="release")
    await rig.enqueue("saga", attempts=1)
    for _ in range(4):
        await rig.run()
        rig.clock.advance(60)
    assert saga.log == ["charge", "reserve", "refund"]


async def test_a_redriven_saga_that_fails_again_is_undone_again(rig: Rig) -> None:
    saga = Saga(rig)
    job = await rig.enqueue("saga", attempts=1)
    await rig.run()
    await rig.store.redrive([JobRedrive(id=job)])
    await rig.run()
    assert saga.log == ["charge", "reserve", "release", "refund"] * 2
    assert len(await saga.undone(job)) == 4


async def test_what_cannot_be_undone_is_told_and_tried_again(rig: Rig) -> None:
    saga = Saga(rig)
    await rig.enqueue("saga", attempts=1)
    rig.faulty.fail("compensate", StoreRejected("no"), times=2)
    await rig.run()
    assert saga.log == ["charge", "reserve"]
    worker = rig.worker()
    turn = turn_of(await worker._parts.upkeep.group_check.move(CHECK_BATCH))
    assert (turn.verdict, turn.counts) == (Verdict.DEGRADED, {"failed": 1})
    assert rig.phases() == ["undo", "undo"]  # once by each worker
    await rig.run()
    assert saga.log == ["charge", "reserve", "release", "refund"]


async def test_a_check_with_nothing_to_do_is_three_probes(rig: Rig) -> None:
    turn = turn_of(await rig.worker()._parts.upkeep.group_check.move(CHECK_BATCH))
    assert turn.verdict is Verdict.EMPTY
    assert rig.faulty.calls == ["expire_blocked", "close_groups", "undoing"]


@pytest.mark.parametrize("given", [None, "refund"])
async def test_only_a_job_undoes(rig: Rig, given: Any) -> None:
    async def saga(ctx: Context) -> None:
        await ctx.on_abort(given)

    rig.task(saga)
    job = await rig.enqueue("saga", attempts=1)
    await rig.run()
    failure = (await rig.record(job)).failure
    assert failure is not None
    assert failure.type == "InvalidArgument"
