"""The store's own trouble is not charged to a job: its end is kept until it is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from offpath.errors import (
    AppClosed,
    SchemaMissing,
    SchemaOutdated,
    StoreBusy,
    StoreError,
    StoreRejected,
    StoreUnavailable,
)
from offpath.model.job import JobState
from offpath.model.settlement import Settled, Settlement
from tests.unit.jobs.worker.rig import Rig

TROUBLE = [
    StoreError("the role has no right to do this"),
    SchemaMissing("no tables"),
    SchemaOutdated("a column is gone"),
    StoreBusy("locked"),
    StoreUnavailable("away"),
    AppClosed("closed during this call"),
    OSError(24, "too many open files"),
    MemoryError(),
]


@pytest.mark.parametrize("error", TROUBLE, ids=lambda error: type(error).__name__)
async def test_an_end_is_kept_through_any_trouble_and_recorded_once(
    rig: Rig, error: Exception
) -> None:
    runs: list[int] = []

    async def work(ctx: Any) -> int:
        runs.append(ctx.attempt)
        return 7

    rig.task(work)
    job = await rig.enqueue("work")
    rig.faulty.fail("settle", error, times=20)
    worker = await rig.started()
    await rig.pass_time(5)
    assert await rig.state(job) is JobState.RUNNING
    settle = next(one for one in worker.loops() if one.name == "settle")
    assert settle.consecutive_failures > 1, "what is not recorded is told of"
    rig.faulty.heal()
    await rig.pass_time(5)
    record = await rig.record(job)
    assert (record.state, record.result, record.deliveries) == (JobState.SUCCEEDED, "7", 1)
    assert runs == [1]


async def test_one_end_that_the_store_has_trouble_with_holds_up_no_other(rig: Rig) -> None:
    settle, hurt = rig.memory.settle, set[str]()

    async def choosy(settlements: list[Settlement]) -> list[Settled]:
        if hurt & {one.job.id for one in settlements}:
            raise StoreError("failed with XX001: a page is damaged")
        return await settle(settlements)

    rig.memory.settle = choosy  # type: ignore[method-assign, assignment]

    async def work() -> None: ...

    rig.task(work)
    jobs = [await rig.enqueue("work") for _ in range(9)]
    hurt.update({jobs[0], jobs[4]})
    await rig.started(concurrency=10)
    await rig.pass_time(3)
    states = [await rig.state(job) for job in jobs]
    assert [n for n, state in enumerate(states) if state is JobState.RUNNING] == [0, 4]
    hurt.clear()
    await rig.pass_time(2)
    assert {await rig.state(job) for job in jobs} == {JobState.SUCCEEDED}
    assert {(await rig.record(job)).deliveries for job in jobs} == {1}


async def test_what_is_said_of_the_values_ends_the_job(rig: Rig) -> None:
    async def work() -> int:
        return 7

    rig.task(work)
    job = await rig.enqueue("work")
    rig.faulty.fail("settle", StoreRejected("no such text"), times=1)
    await rig.started()
    await rig.pass_time(1)
    assert await rig.state(job) is JobState.DEAD
