"""A job that begins at once: enqueued and in a worker's hand in one commit, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from offpath.errors import IdConflict, InvalidArgument, LeaseLost, UniqueConflict
from offpath.model.job import JobState, UniquePolicy
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    add,
    end,
    exists,
    join,
    new_job,
    outcomes,
    record,
    succeed,
    take,
    take_one,
    unique,
)
from tests.conformance.workflow_builders import gate_on, group_of, hold_one, limited


async def test_it_runs_at_once(store: Store) -> None:
    await join(store)
    job = new_job(input='{"x":1}', priority=3, queue="q", tags=("t",))
    held = await store.start(job, "w1")
    assert held is not None
    assert (held.id, held.worker, held.attempt, held.deliveries) == (job.id, "w1", 1, 1)
    assert (held.input, held.queue, held.group_id) == (job.input, "q", job.id)
    known = await record(store, job.id)
    assert (known.state, known.worker, known.started_at) == (JobState.RUNNING, "w1", START)
    assert [each.id for each in await store.held("w1")] == [job.id]
    assert await take(store) == ()
    assert (await succeed(store, held)).group_done


async def test_it_is_durable_from_its_first_retry_on(store: Store, clock: ManualClock) -> None:
    await join(store, "w1", "w2", lease=60)
    held = await store.start(new_job(), "w1")
    assert held is not None
    await end(store, held, outcomes()["retry"])
    clock.advance(6)
    again = await take_one(store, "w2")
    assert (again.id, again.attempt) == (held.id, 2)


async def test_it_is_rescued_like_any_other(store: Store, clock: ManualClock) -> None:
    await join(store)
    held = await store.start(new_job(), "w1")
    assert held is not None
    clock.advance(31)
    (rescued,) = await store.rescue(limit=10, max_deliveries=3)
    assert rescued.job.id == held.id


@pytest.mark.parametrize("how", ["unknown", "late", "gone"])
async def test_a_worker_that_is_not_alive_gets_nothing(
    store: Store, clock: ManualClock, how: str
) -> None:
    if how != "unknown":
        await join(store)
    if how == "late":
        clock.advance(31)
    if how == "gone":
        await store.deregister("w1")
    job = new_job()
    with pytest.raises(LeaseLost):
        await store.start(job, "w1")
    assert not await exists(store, job.id)


async def test_a_repeat_is_not_started(store: Store) -> None:
    await join(store)
    job = new_job()
    assert await store.start(job, "w1") is not None
    assert await store.start(job, "w1") is None
    other = new_job(id=await add(store))
    assert await store.start(other, "w1") is None
    assert (await record(store, other.id)).state is JobState.QUEUED


async def test_one_that_attaches_is_not_started(store: Store) -> None:
    await join(store)
    holder = await add(store, unique=unique("k"))
    job = new_job(unique=unique("k"))
    assert await store.start(job, "w1") is None
    assert not await exists(store, job.id)
    assert (await record(store, holder)).state is JobState.QUEUED


async def test_conflicts_are_raised(store: Store) -> None:
    await join(store)
    taken = await add(store, unique=unique("k"))
    with pytest.raises(IdConflict):
        await store.start(new_job(id=taken, input='{"x":1}'), "w1")
    with pytest.raises(UniqueConflict):
        await store.start(new_job(unique=unique("k", policy=UniquePolicy.REFUSE)), "w1")


async def test_a_limit_or_a_gate_is_refused(store: Store) -> None:
    await join(store)
    first = await add(store)
    gate = gate_on(first)
    await hold_one(store, gate)
    for job in (limited(), new_job(gate=gate.id)):
        with pytest.raises(InvalidArgument):
            await store.start(job, "w1")
        assert not await exists(store, job.id)


async def test_it_may_join_a_group(store: Store) -> None:
    await join(store)
    root = await add(store, "other")
    held = await store.start(new_job(group_id=root), "w1")
    assert held is not None
    assert held.group_id == root
    assert (await group_of(store, root)).open == 2


async def test_when_it_is_due_is_left_aside(store: Store) -> None:
    await join(store)
    held = await store.start(new_job(delay=600), "w1")
    assert held is not None
    assert (await record(store, held.id)).state is JobState.RUNNING


async def test_its_unique_key_is_held(store: Store) -> None:
    await join(store)
    held = await store.start(new_job(unique=unique("k")), "w1")
    assert held is not None
    assert await store.start(new_job(unique=unique("k")), "w1") is None
    await succeed(store, held)
    assert await store.start(new_job(unique=unique("k")), "w1") is not None


async def test_of_many_that_start_one_job_one_does(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    await join(store, "w0", "w1", "w2", "w3")
    for _ in range(5):
        job = new_job()
        got = await asyncio.gather(*(rivals[n].start(job, f"w{n}") for n in range(4)))
        assert sum(each is not None for each in got) == 1
