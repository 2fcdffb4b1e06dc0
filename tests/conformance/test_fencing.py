"""Only the holder of a lease can write, and only once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from offpath.errors import LeaseLost
from offpath.model.effects import Effects
from offpath.model.job import JobFilter, JobState, LeasedJob
from offpath.model.settlement import Released, Settlement, SettleStatus, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    OUTCOMES,
    die,
    end,
    exists,
    join,
    new_job,
    outcomes,
    record,
    settle,
    start,
    succeed,
    take_one,
    worker_info,
)


async def _rescued(store: Store, clock: ManualClock, job: LeasedJob) -> None:
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=5)


async def _held_by_another(store: Store, clock: ManualClock, job: LeasedJob) -> None:
    await _rescued(store, clock, job)
    await join(store, "w2")
    await take_one(store, "w2")


async def _held_again(store: Store, clock: ManualClock, job: LeasedJob) -> None:
    await end(store, job, Released())
    await take_one(store, job.worker)


async def _succeeded(store: Store, clock: ManualClock, job: LeasedJob) -> None:
    await succeed(store, job)


async def _dead(store: Store, clock: ManualClock, job: LeasedJob) -> None:
    await die(store, job)


async def _cancelled(store: Store, clock: ManualClock, job: LeasedJob) -> None:
    await _rescued(store, clock, job)
    await store.cancel([job.id])


async def _deleted(store: Store, clock: ManualClock, job: LeasedJob) -> None:
    await succeed(store, job)
    await store.delete([job.id])


async def _redriven(store: Store, clock: ManualClock, job: LeasedJob) -> None:
    await die(store, job)
    await store.redrive([JobRedrive(id=job.id)])


LOSSES: dict[str, Callable[[Store, ManualClock, LeasedJob], Awaitable[None]]] = {
    "rescued": _rescued,
    "held by another": _held_by_another,
    "held again by the same": _held_again,
    "succeeded": _succeeded,
    "dead": _dead,
    "cancelled": _cancelled,
    "deleted": _deleted,
    "redriven": _redriven,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_stale_settlement_writes_nothing(
    store: Store, clock: ManualClock, loss: str, outcome: str
) -> None:
    job = await start(store)
    await LOSSES[loss](store, clock, job)
    before = await store.get([job.id])
    child = new_job()

    answer = await settle(store, job, outcomes()[outcome], effects=[child], keep=1)

    assert answer.status is SettleStatus.LEASE_LOST
    assert (answer.enqueued, answer.group_done) == ((), False)
    assert await store.get([job.id]) == before
    assert not await exists(store, child.id)


@pytest.mark.parametrize("loss", LOSSES)
async def test_stale_progress_is_refused(store: Store, clock: ManualClock, loss: str) -> None:
    job = await start(store)
    await LOSSES[loss](store, clock, job)
    before = await store.get([job.id])
    with pytest.raises(LeaseLost):
        await store.progress(job, '{"done":1}')
    assert await store.get([job.id]) == before


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_heartbeat_tells_what_was_lost(store: Store, clock: ManualClock, loss: str) -> None:
    job = await start(store)
    await LOSSES[loss](store, clock, job)
    looked = await store.signals("w1", [job])
    beaten = await store.extend(worker_info("w1"), lease_seconds=30, held=[job])
    assert looked.lost == (job.id,)
    assert beaten.lost == (job.id,)


async def test_the_holder_reports_progress(store: Store) -> None:
    job = await start(store)
    await store.progress(job, '{"done":1}')
    await store.progress(job, '{"done":2}')
    assert (await record(store, job.id)).progress == '{"done":2}'
    await succeed(store, job)


@pytest.mark.parametrize(
    "change", [{"worker": "w2"}, {"deliveries": 2}, {"deliveries": 0}], ids=["worker", "up", "down"]
)
async def test_every_part_of_the_fence_counts(store: Store, change: dict[str, object]) -> None:
    job = await start(store)
    await join(store, "w2")
    forged: LeasedJob = msgspec.structs.replace(job, **change)
    assert (await settle(store, forged, Succeeded())).status is SettleStatus.LEASE_LOST
    with pytest.raises(LeaseLost):
        await store.progress(forged, "{}")
    assert (await record(store, job.id)).state is JobState.RUNNING
    await succeed(store, job)


async def test_a_late_holder_may_still_settle_until_it_is_rescued(
    store: Store, clock: ManualClock
) -> None:
    """Nobody else has the job yet: to refuse the finished work would only repeat it."""
    job = await start(store)
    clock.advance(31)
    await succeed(store, job)
    assert await store.rescue(limit=10, max_deliveries=3) == []


async def test_the_other_settlements_of_the_batch_are_applied(
    store: Store, clock: ManualClock
) -> None:
    stale = await start(store)
    await _held_by_another(store, clock, stale)
    good = await start(store, "w3")
    child = new_job()
    answers = await store.settle(
        [
            Settlement(job=stale, outcome=Succeeded(), effects=Effects(jobs=(new_job(),))),
            Settlement(job=good, outcome=Succeeded(), effects=Effects(jobs=(child,))),
        ]
    )
    assert [answer.status for answer in answers] == [SettleStatus.LEASE_LOST, SettleStatus.APPLIED]
    assert await exists(store, child.id)


async def test_two_stores_settle_one_attempt_once(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    for _ in range(5):
        job = await start(store)
        answers = await asyncio.gather(
            *(settle(each, job, Succeeded(), effects=[new_job("child")]) for each in rivals)
        )
        statuses = [answer.status for answer in answers]
        assert statuses.count(SettleStatus.APPLIED) == 1
        assert statuses.count(SettleStatus.LEASE_LOST) == len(rivals) - 1
    (counted,) = await store.count(JobFilter(tasks=("child",)))
    assert counted.count == 5
