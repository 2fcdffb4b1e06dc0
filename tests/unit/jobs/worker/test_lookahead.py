"""Jobs are taken ahead of the slots while they are short, and not kept from others when not."""

from __future__ import annotations

import asyncio

from offpath.jobs.worker.lookahead import BATCHES, FEWEST_SLOTS
from offpath.jobs.worker.terms import Stage
from offpath.jobs.worker.worker import Worker
from offpath.model.job import JobFilter, JobState
from tests.unit.jobs.worker.rig import Rig, until

SLOTS = FEWEST_SLOTS
WARM_UP = 300
"""Short jobs after which the worker has seen that they are."""


class Blocked:
    """Handlers that are quick until they are told to block."""

    def __init__(self, rig: Rig) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.running = self.most = 0
        rig.task(self.work)

    async def work(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.open.wait()
        self.running -= 1


async def warmed_up(rig: Rig, blocked: Blocked, slots: int = SLOTS) -> Worker:
    """A worker that has run short jobs, and now blocks with more of them waiting than slots."""
    for _ in range(WARM_UP):
        await rig.enqueue("work")
    worker = await rig.started(concurrency=slots)
    await until(lambda: worker.counts.succeeded == WARM_UP)
    blocked.open.clear()
    for _ in range(SLOTS * (BATCHES + 3)):
        await rig.enqueue("work")
    return worker


async def test_more_is_taken_than_there_are_slots_but_not_run(rig: Rig) -> None:
    blocked = Blocked(rig)
    worker = await warmed_up(rig, blocked)
    await until(lambda: len(worker.active()) > SLOTS)
    assert len(worker.active()) <= SLOTS * (1 + BATCHES)
    stages = [one.stage for one in worker.active()]
    assert stages.count(Stage.RUNNING) <= SLOTS
    blocked.open.set()
    await until(lambda: worker.counts.succeeded == WARM_UP + SLOTS * (BATCHES + 3))
    assert blocked.most <= SLOTS, "concurrency is a limit, whatever is taken ahead"


async def test_what_gets_no_slot_soon_is_given_back(rig: Rig) -> None:
    blocked = Blocked(rig)
    worker = await warmed_up(rig, blocked)
    await until(lambda: worker.counts.released > 0)
    assert len(worker.active()) == SLOTS
    counted = {one.state: one.count for one in await rig.memory.count(JobFilter())}
    assert counted[JobState.RUNNING] == SLOTS
    assert counted[JobState.QUEUED] == SLOTS * (BATCHES + 2)
    blocked.open.set()
    await until(lambda: worker.counts.succeeded == WARM_UP + SLOTS * (BATCHES + 3))


async def test_a_worker_with_few_slots_takes_nothing_ahead(rig: Rig) -> None:
    blocked = Blocked(rig)
    worker = await warmed_up(rig, blocked, slots=SLOTS - 1)
    await until(lambda: blocked.running == SLOTS - 1)
    assert len(worker.active()) == SLOTS - 1


async def test_a_stop_gives_back_what_waits(rig: Rig) -> None:
    blocked = Blocked(rig)
    worker = await warmed_up(rig, blocked)
    await until(lambda: len(worker.active()) > SLOTS)
    stopping = asyncio.create_task(worker.stop())
    await until(lambda: len(worker.active()) <= SLOTS)
    blocked.open.set()
    await stopping
    counted = {one.state: one.count for one in await rig.memory.count(JobFilter())}
    assert JobState.RUNNING not in counted
    assert counted[JobState.SUCCEEDED] + counted[JobState.QUEUED] == WARM_UP + SLOTS * (BATCHES + 3)
