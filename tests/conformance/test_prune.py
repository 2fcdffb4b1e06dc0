"""Removing ended jobs: those whose time has passed, and those that are named."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.changes import ChangedJob
from offpath.model.job import JobFilter, JobState
from offpath.model.settlement import Retry
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    die,
    end,
    enqueue,
    exists,
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


async def _ended(store: Store, keep: float | None, count: int = 1) -> list[str]:
    await join(store)
    ids = [await add(store) for _ in range(count)]
    for job in await take(store, limit=count):
        await succeed(store, job, keep=keep)
    return ids


async def test_a_job_goes_when_its_time_has_passed(store: Store, clock: ManualClock) -> None:
    (job_id,) = await _ended(store, keep=60)
    clock.advance(59)
    assert (await store.prune(limit=10)).total == 0
    assert await exists(store, job_id)
    clock.advance(2)
    assert (await store.prune(limit=10)).total == 1
    assert not await exists(store, job_id)
    assert await store.states([job_id]) == {}
    assert await store.count(JobFilter()) == []
    assert (await store.prune(limit=10)).total == 0


async def test_without_keep_it_stays(store: Store, clock: ManualClock) -> None:
    (job_id,) = await _ended(store, keep=None)
    clock.advance(3_000_000)
    assert (await store.prune(limit=10)).total == 0
    assert await exists(store, job_id)


async def test_keep_of_nothing_goes_with_the_next_prune(store: Store) -> None:
    (job_id,) = await _ended(store, keep=0)
    assert (await store.prune(limit=10)).total == 1
    assert not await exists(store, job_id)


async def test_the_limit_pages(store: Store, clock: ManualClock) -> None:
    await _ended(store, keep=1, count=10)
    clock.advance(2)
    assert [(await store.prune(limit=4)).total for _ in range(4)] == [4, 4, 2, 0]


async def test_what_lives_is_never_pruned(store: Store, clock: ManualClock) -> None:
    await _ended(store, keep=1, count=3)
    waiting, future = await add(store), await add(store, delay=90_000)
    job = await start(store, task="t")
    retried = await start(store, task="u")
    await end(store, retried, Retry(delay=60, failure=failure()), keep=1)
    clock.advance(10_000)
    assert (await store.prune(limit=100)).total == 3
    live = [waiting, future, job.id, retried.id]
    assert len(await store.get(live)) == 4


@pytest.mark.parametrize("way", ["prune", "delete"])
async def test_the_history_goes_with_the_job(store: Store, clock: ManualClock, way: str) -> None:
    job = new_job()
    await enqueue(store, job)
    await join(store)
    await end(store, await take_one(store), Retry(delay=0, failure=failure()))
    await die(store, await take_one(store), keep=1)
    clock.advance(2)
    if way == "prune":
        await store.prune(limit=10)
    else:
        await store.delete([job.id])

    await enqueue(store, job)

    stored = await record(store, job.id)
    assert (stored.failures, stored.deliveries, stored.attempt) == ((), 0, 1)
    assert stored.state is JobState.QUEUED


@pytest.mark.parametrize("state", ["succeeded", "dead", "cancelled"])
async def test_delete_removes_an_ended_job(store: Store, state: str) -> None:
    job = await start(store, queue="q", parent=fresh_id())
    ended = (await end(store, job, outcomes()[state])).state
    assert ended is not None
    assert await store.delete([job.id]) == [
        ChangedJob(
            id=job.id,
            task=TASK,
            queue="q",
            group_id=job.id,
            was=ended,
            state=ended,
            parent=job.parent,
        )
    ]
    assert not await exists(store, job.id)
    assert await store.delete([job.id]) == []


async def test_delete_leaves_what_lives(store: Store) -> None:
    running = await start(store, task="t")
    waiting, future = await add(store), await add(store, delay=60)
    ids = [running.id, waiting, future, fresh_id()]
    assert await store.delete(ids) == []
    assert await store.delete([]) == []
    assert len(await store.get(ids)) == 3


async def test_delete_of_many_kinds(store: Store) -> None:
    ended = await _ended(store, keep=None, count=5)
    living = [await add(store) for _ in range(5)]
    changed = await store.delete([*living, *ended, *ended])
    assert sorted(one.id for one in changed) == ended
    assert len(await store.get(living)) == 5


async def test_thirty_days_leave_nothing_behind(store: Store, clock: ManualClock) -> None:
    """Cases E1: under steady load what is kept levels off."""
    kept = []
    for _ in range(30):
        await _ended(store, keep=3 * 86_400, count=5)
        clock.advance(timedelta(days=1))
        await store.prune(limit=1_000)
        kept.append(sum(one.count for one in await store.count(JobFilter())))
    assert kept[5:] == [kept[5]] * 25
    assert kept[5] <= 15
    assert clock.now() == START + timedelta(days=30)
