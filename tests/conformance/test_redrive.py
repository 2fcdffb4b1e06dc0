"""Putting ended jobs back, and making waiting ones due."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from offpath.model.changes import ChangedJob
from offpath.model.job import DeadReason, JobState
from offpath.model.settlement import Dead, Retry, Settlement, Snoozed
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    ask,
    die,
    end,
    enqueue,
    failure,
    fresh_id,
    join,
    new_job,
    outcomes,
    record,
    start,
    succeed,
    take,
    take_one,
)


def at(seconds: float) -> object:
    return START + timedelta(seconds=seconds)


async def _dead_after_troubles(store: Store, clock: ManualClock, **fields: Any) -> str:
    """A job on its second attempt, once lost, then dead; the clock ends 32 s later."""
    job = await start(store, **fields)
    await end(store, job, Retry(delay=0, failure=failure("one")))
    await take_one(store)
    clock.advance(31)
    await store.rescue(limit=1, max_deliveries=9)
    await join(store)
    job = await take_one(store)
    assert (job.attempt, job.losses, job.deliveries) == (2, 1, 3)
    await store.progress(job, '{"done":1}')
    clock.advance(1)
    two = failure("two", attempt=2)
    await end(store, job, Dead(reason=DeadReason.EXHAUSTED, failure=two), keep=600)
    return job.id


async def test_a_dead_job_starts_as_fresh(store: Store, clock: ManualClock) -> None:
    job_id = await _dead_after_troubles(store, clock, queue="q")

    changed = await store.redrive([JobRedrive(id=job_id)])

    assert changed == [
        ChangedJob(
            id=job_id,
            task=TASK,
            queue="q",
            group_id=job_id,
            was=JobState.DEAD,
            state=JobState.QUEUED,
        )
    ]
    stored = await record(store, job_id)
    assert (stored.state, stored.run_at) == (JobState.QUEUED, at(32))
    assert (stored.attempt, stored.losses, stored.redrives) == (1, 0, 1)
    assert (stored.reason, stored.finished_at, stored.expires_at) == (None, None, None)
    assert [each.message for each in stored.failures] == ["one", "two"]
    again = await take_one(store)
    assert (again.id, again.attempt, again.losses, again.deliveries) == (job_id, 1, 0, 4)


async def test_a_redriven_job_is_not_pruned(store: Store, clock: ManualClock) -> None:
    job_id = await _dead_after_troubles(store, clock)
    await store.redrive([JobRedrive(id=job_id)])
    clock.advance(10_000)
    assert (await store.prune(limit=10)).total == 0
    assert (await record(store, job_id)).state is JobState.QUEUED


async def test_a_cancelled_job_starts_as_fresh(store: Store) -> None:
    job_id = await add(store)
    await store.cancel([job_id], keep=5)
    (changed,) = await store.redrive([JobRedrive(id=job_id)])
    assert (changed.was, changed.state) == (JobState.CANCELLED, JobState.QUEUED)
    stored = await record(store, job_id)
    assert (stored.cancel_requested, stored.redrives, stored.expires_at) == (False, 1, None)
    await join(store)
    assert (await succeed(store, await take_one(store))).state is JobState.SUCCEEDED


async def test_each_has_its_own_delay(store: Store, clock: ManualClock) -> None:
    ids = [await add(store) for _ in range(3)]
    await store.cancel(ids)
    clock.advance(1)
    await store.redrive([JobRedrive(id=one, delay=n * 10) for n, one in enumerate(ids)])
    assert [(await record(store, one)).run_at for one in ids] == [at(1), at(11), at(21)]
    await join(store)
    first = await ask(store)
    assert [job.id for job in first.jobs] == [ids[0]]
    assert first.due_in == pytest.approx(10)
    clock.advance(10)
    assert [job.id for job in await take(store)] == [ids[1]]


async def test_it_counts_every_time(store: Store) -> None:
    job_id = (await start(store)).id
    for n in range(1, 4):
        await store.cancel([job_id])
        (held,) = await store.get([job_id])
        if held.state is JobState.RUNNING:
            await store.deregister("w1")
            await store.rescue(limit=1, max_deliveries=9)
        await store.redrive([JobRedrive(id=job_id)])
        assert (await record(store, job_id)).redrives == n


async def test_a_relative_deadline_starts_anew(store: Store, clock: ManualClock) -> None:
    job = await start(store, deadline_in=20)
    await die(store, job)
    clock.advance(100)
    await store.redrive([JobRedrive(id=job.id)])
    assert (await record(store, job.id)).deadline == at(120)
    await join(store)
    assert (await take_one(store)).deadline == at(120)


async def test_an_absolute_deadline_is_dropped(store: Store) -> None:
    job = await start(store, deadline=START + timedelta(seconds=20))
    await die(store, job)
    await store.redrive([JobRedrive(id=job.id)])
    assert (await record(store, job.id)).deadline is None


@pytest.mark.parametrize("state", ["scheduled", "retry", "snoozed"])
async def test_a_waiting_job_is_made_due_and_stays_what_it_is(
    store: Store, clock: ManualClock, state: str
) -> None:
    job = new_job(delay=60 if state == "scheduled" else 0, deadline_in=500)
    await enqueue(store, job)
    await join(store)
    if state != "scheduled":
        await end(store, await take_one(store), outcomes()[state])
    before = await record(store, job.id)
    clock.advance(1)

    (changed,) = await store.redrive([JobRedrive(id=job.id)])

    assert (changed.was, changed.state) == (JobState.QUEUED, JobState.QUEUED)
    stored = await record(store, job.id)
    assert stored.run_at == at(1)
    assert (stored.attempt, stored.redrives) == (before.attempt, before.redrives)
    assert (stored.deadline, stored.failures) == (before.deadline, before.failures)
    assert (await take_one(store)).id == job.id


async def test_a_waiting_job_can_be_put_off(store: Store, clock: ManualClock) -> None:
    job_id = await add(store)
    await store.redrive([JobRedrive(id=job_id, delay=10)])
    await join(store)
    assert await take(store) == ()
    clock.advance(10)
    assert (await take_one(store)).id == job_id


@pytest.mark.parametrize("state", ["running", "succeeded"])
async def test_running_and_succeeded_jobs_are_left_alone(store: Store, state: str) -> None:
    job = await start(store)
    if state == "succeeded":
        await succeed(store, job)
    before = await record(store, job.id)
    assert await store.redrive([JobRedrive(id=job.id)]) == []
    assert await record(store, job.id) == before


async def test_unknown_ids_and_none(store: Store) -> None:
    known = await add(store)
    await store.cancel([known])
    assert await store.redrive([]) == []
    wanted = [JobRedrive(id=fresh_id()), JobRedrive(id=known), JobRedrive(id=fresh_id())]
    assert [one.id for one in await store.redrive(wanted)] == [known]


async def test_a_redriven_job_keeps_its_place_in_its_group(store: Store) -> None:
    root = await start(store)
    child = new_job(parent=root.id)
    await end(store, root, Snoozed(delay=60), effects=[child])
    await die(store, await take_one(store))
    (changed,) = await store.redrive([JobRedrive(id=child.id)])
    assert (changed.group_id, changed.parent) == (root.group_id, root.id)
    assert (await take_one(store)).group_id == root.group_id


async def test_many_redrives_at_once_change_a_job_once(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    ids = [await add(store) for _ in range(20)]
    await store.cancel(ids)
    answers = await asyncio.gather(
        *(each.redrive([JobRedrive(id=one) for one in ids]) for each in rivals)
    )
    fresh = [one.id for batch in answers for one in batch if one.was is JobState.CANCELLED]
    assert sorted(fresh) == sorted(ids)
    assert {one.redrives for one in await store.get(ids)} == {1}


async def test_redrive_and_death_at_once(rivals: tuple[Store, ...]) -> None:
    """Each job is put back if it was dead by then, and left alone if it still ran."""
    store = rivals[0]
    await join(store)
    for _ in range(5):
        await enqueue(store, *(new_job() for _ in range(30)))
        jobs = await take(store)
        ids = [job.id for job in jobs]
        batches = [
            [Settlement(job=job, outcome=outcomes()["dead"]) for job in jobs[n : n + 10]]
            for n in range(0, 30, 10)
        ]
        redrives = asyncio.gather(
            *(
                rivals[1].redrive([JobRedrive(id=one, delay=600) for one in ids[n : n + 6]])
                for n in range(0, 30, 6)
            )
        )
        settles = asyncio.gather(*(store.settle(each) for each in batches))
        answers, _ = await asyncio.gather(redrives, settles)
        back = {one.id for answer in answers for one in answer}
        for job_id, state in (await store.states(ids)).items():
            assert state is (JobState.QUEUED if job_id in back else JobState.DEAD)
