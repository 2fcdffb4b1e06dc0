"""Cancelling: at once what waits, by request what runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from offpath.model.changes import ChangedJob
from offpath.model.job import JobState
from offpath.model.settlement import Released, Retry, Settlement, Snoozed
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
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
    worker_info,
)


@pytest.mark.parametrize("state", ["ready", "scheduled", "retry", "snoozed"])
async def test_a_waiting_job_ends_at_once(store: Store, clock: ManualClock, state: str) -> None:
    job = new_job(delay=60 if state == "scheduled" else 0, parent=fresh_id(), queue="q")
    await enqueue(store, job)
    attempt = 1
    if state in {"retry", "snoozed"}:
        await join(store)
        await end(store, await take_one(store), outcomes()[state])
        attempt = 2 if state == "retry" else 1
    clock.advance(1)

    changed = await store.cancel([job.id])

    assert changed == [
        ChangedJob(
            id=job.id,
            task=TASK,
            queue="q",
            group_id=job.id,
            was=JobState.QUEUED,
            state=JobState.CANCELLED,
            attempt=attempt,
            parent=job.parent,
            group_done=True,
        )
    ]
    stored = await record(store, job.id)
    assert stored.state is JobState.CANCELLED
    assert (stored.finished_at, stored.expires_at) == (START + timedelta(seconds=1), None)
    clock.advance(1000)
    await join(store)
    assert await take(store) == ()


async def test_keep_limits_how_long_it_stays(store: Store) -> None:
    job_id = await add(store)
    await store.cancel([job_id], keep=60)
    assert (await record(store, job_id)).expires_at == START + timedelta(seconds=60)


async def test_a_running_job_is_marked_and_its_worker_told(store: Store) -> None:
    job = await start(store)

    (changed,) = await store.cancel([job.id], keep=5)

    assert (changed.was, changed.state) == (JobState.RUNNING, JobState.RUNNING)
    assert not changed.group_done
    stored = await record(store, job.id)
    assert (stored.state, stored.cancel_requested) == (JobState.RUNNING, True)
    assert (stored.finished_at, stored.expires_at) == (None, None)
    assert (await store.signals("w1", [job])).cancelled == (job.id,)
    beat = await store.extend(worker_info("w1"), lease_seconds=30, held=[job])
    assert (beat.cancelled, beat.lost) == ((job.id,), ())


async def test_only_the_marked_ones_are_told(store: Store) -> None:
    jobs = [await start(store) for _ in range(5)]
    await store.cancel([jobs[1].id, jobs[3].id])
    told = await store.signals("w1", jobs)
    assert sorted(told.cancelled) == [jobs[1].id, jobs[3].id]
    assert told.lost == ()


@pytest.mark.parametrize("state", ["succeeded", "dead", "cancelled"])
async def test_an_ended_job_is_left_alone(store: Store, clock: ManualClock, state: str) -> None:
    job = await start(store)
    await end(store, job, outcomes()[state])
    before = await record(store, job.id)
    clock.advance(1)
    assert await store.cancel([job.id], keep=1) == []
    assert await record(store, job.id) == before


async def test_unknown_ids_and_none(store: Store) -> None:
    known = await add(store)
    assert await store.cancel([]) == []
    changed = await store.cancel([fresh_id(), known, fresh_id(), known])
    assert [one.id for one in changed] == [known]


async def test_repeating_it_changes_nothing(store: Store, clock: ManualClock) -> None:
    running = await start(store)
    waiting = await add(store)
    ids = [running.id, waiting]
    await store.cancel(ids, keep=60)
    before = await store.get(ids)
    clock.advance(7)
    again = await store.cancel(ids, keep=600)
    assert waiting not in {one.id for one in again}
    after = await store.get(ids)
    assert {job.id: job for job in after} == {job.id: job for job in before}


async def test_many_of_all_kinds_at_once(store: Store) -> None:
    running = [await start(store) for _ in range(3)]
    ended = [await start(store) for _ in range(3)]
    for job in ended:
        await succeed(store, job)
    waiting = [new_job(delay=n % 2) for n in range(200)]
    await enqueue(store, *waiting)

    marked = [job.id for job in running]
    cancelled = [job.id for job in waiting]
    changed = await store.cancel([*(job.id for job in ended), *cancelled, *marked])

    became = {one.id: one.state for one in changed}
    assert became == dict.fromkeys(cancelled, JobState.CANCELLED) | dict.fromkeys(
        marked, JobState.RUNNING
    )


async def test_a_request_outlives_a_lost_worker(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    await store.cancel([job.id])
    clock.advance(31)
    (rescued,) = await store.rescue(limit=10, max_deliveries=3)
    assert rescued.state is JobState.CANCELLED
    assert (await record(store, job.id)).state is JobState.CANCELLED


async def test_a_request_ends_with_the_run_it_was_for(store: Store) -> None:
    job = await start(store)
    await store.cancel([job.id])
    await end(store, job, Snoozed())
    await store.redrive([JobRedrive(id=job.id)])
    again = await take_one(store)
    assert not (await record(store, job.id)).cancel_requested
    assert (await store.signals("w1", [again])).cancelled == ()
    assert (await succeed(store, again)).state is JobState.SUCCEEDED


async def test_a_cancel_in_the_retry_wait_keeps_the_history(store: Store) -> None:
    job = await start(store)
    await end(store, job, Retry(delay=60, failure=failure("why")))
    await store.cancel([job.id])
    assert [each.message for each in (await record(store, job.id)).failures] == ["why"]


async def test_cancel_and_lease_at_once(rivals: tuple[Store, ...]) -> None:
    """Each job is either cancelled and never handed out, or running and marked."""
    store = rivals[0]
    await join(store)
    for _ in range(5):
        jobs = [new_job() for _ in range(60)]
        await enqueue(store, *jobs)
        ids = [job.id for job in jobs]

        cancels = asyncio.gather(*(store.cancel(ids[n : n + 10]) for n in range(0, 60, 10)))
        leased, _ = await asyncio.gather(take(rivals[1], limit=60), cancels)

        handed = {job.id for job in leased}
        for stored in await store.get(ids):
            right = JobState.RUNNING if stored.id in handed else JobState.CANCELLED
            assert stored.state is right
            assert stored.cancel_requested or stored.state is JobState.CANCELLED


async def test_cancel_and_release_at_once(rivals: tuple[Store, ...]) -> None:
    """A job that comes back while it is cancelled ends, whichever is first."""
    store = rivals[0]
    await join(store)
    for _ in range(5):
        await enqueue(store, *(new_job() for _ in range(30)))
        jobs = await take(store)
        ids = [job.id for job in jobs]
        batches = [
            [Settlement(job=job, outcome=Released()) for job in jobs[n : n + 10]]
            for n in range(0, 30, 10)
        ]
        cancels = asyncio.gather(*(rivals[1].cancel(ids[n : n + 6]) for n in range(0, 30, 6)))
        await asyncio.gather(cancels, *(store.settle(batch) for batch in batches))
        assert set((await store.states(ids)).values()) == {JobState.CANCELLED}


async def test_cancel_and_settle_at_once_leave_one_end(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    for n in range(10):
        job = await start(store)
        ending = succeed(store, job) if n % 2 else die(store, job)
        answer, changed = await asyncio.gather(ending, rivals[1].cancel([job.id]))
        stored = await record(store, job.id)
        assert stored.state is answer.state
        assert (stored.state is JobState.CANCELLED) is bool(changed)
