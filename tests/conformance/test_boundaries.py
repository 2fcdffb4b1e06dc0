"""The exact moment at which a time is over: it is over, on every store."""

from __future__ import annotations

from datetime import timedelta

from offpath.model.job import JobState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    add,
    enqueue,
    exists,
    join,
    new_job,
    record,
    start,
    take,
    unique,
)
from tests.conformance.workflow_builders import gate_on, hold_one, limited

TICK = 0.000001
"""Seconds: the least time that a store knows."""


async def test_the_period_of_a_unique_key(store: Store, clock: ManualClock) -> None:
    """Whoever is answered as created is there."""
    first = new_job(unique=unique("k", period=60))
    await enqueue(store, first)
    clock.advance(60 - TICK)
    (attached,) = await enqueue(store, new_job(unique=unique("k", period=60)))
    assert (attached.job_id, attached.created) == (first.id, False)
    clock.advance(TICK)
    (answer,) = await enqueue(store, second := new_job(unique=unique("k", period=60)))
    assert (answer.job_id, answer.created) == (second.id, True)
    assert await exists(store, second.id)
    (again,) = await enqueue(store, new_job(unique=unique("k", period=60)))
    assert (again.job_id, again.created) == (second.id, False)


async def test_the_lease_of_a_worker(store: Store, clock: ManualClock) -> None:
    held = await start(store)
    clock.advance(30 - TICK)
    assert await store.rescue(limit=10, max_deliveries=9) == []
    clock.advance(TICK)
    assert [one.job.id for one in await store.rescue(limit=10, max_deliveries=9)] == [held.id]


async def test_a_deadline(store: Store, clock: ManualClock) -> None:
    job = await add(store, deadline_in=60)
    clock.advance(60 - TICK)
    assert await store.expire_blocked(limit=10) == []
    clock.advance(TICK)
    assert [one.id for one in await store.expire_blocked(limit=10)] == [job]
    assert (await record(store, job)).state is JobState.DEAD


async def test_a_claim(store: Store, clock: ManualClock) -> None:
    assert await store.claim("name", "one", ttl=60)
    clock.advance(60 - TICK)
    assert not await store.claim("name", "two", ttl=60)
    clock.advance(TICK)
    assert await store.claim("name", "two", ttl=60)


async def test_the_time_of_a_gate(store: Store, clock: ManualClock) -> None:
    watched = await add(store)
    held = await hold_one(store, gate_on(watched, timeout=60))
    clock.advance(60 - TICK)
    await store.expire_blocked(limit=10)
    assert (await record(store, held)).state is JobState.BLOCKED
    clock.advance(TICK)
    await store.expire_blocked(limit=10)
    assert (await record(store, held)).reason == "gate_timeout"


async def test_a_cool_down(store: Store, clock: ManualClock) -> None:
    await enqueue(store, limited("api"))
    await store.close_limit("api", until=clock.now() + timedelta(seconds=60))
    clock.advance(60 - TICK)
    assert (await store.admit(limit=10)).jobs == 0
    clock.advance(TICK)
    assert (await store.admit(limit=10)).jobs == 1


async def test_when_a_job_is_due(store: Store, clock: ManualClock) -> None:
    await join(store, lease=600)
    job = await add(store, delay=60)
    clock.advance(60 - TICK)
    assert await take(store) == ()
    clock.advance(TICK)
    assert [one.id for one in await take(store)] == [job]


async def test_a_limit_over_two_queues_lets_the_best_in(store: Store) -> None:
    """Each queue has more than there is room for, the best of them last and in both queues."""
    jobs = [
        limited("api", max_running=3, queue="ab"[priority % 2], priority=priority)
        for priority in range(1, 13)
    ]
    for job in jobs:
        await enqueue(store, job)
    await store.admit(limit=10)
    await join(store)
    assert [job.priority for job in await take(store)] == [12, 11, 10]


async def test_a_lease_over_two_queues_hands_out_the_best_of_each_in_order(
    store: Store, clock: ManualClock
) -> None:
    """Each queue has more than is taken, and the best came last."""
    await join(store)
    for priority in range(1, 7):
        await enqueue(
            store,
            new_job(queue="a", priority=priority),
            new_job(queue="b", priority=priority + 6),
        )
        clock.advance(1)
    assert [job.priority for job in await take(store, limit=4)] == [12, 11, 6, 5]
    assert [job.priority for job in await take(store, limit=3)] == [10, 9, 4]
