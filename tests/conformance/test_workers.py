"""Workers: registered, kept alive by one write, told what they must know."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.health.fleet import WorkerPresence, member
from offpath.model.lease import Renewed
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    LEASE,
    START,
    add,
    end,
    join,
    living,
    outcomes,
    start,
    succeed,
    take,
    take_one,
    worker_info,
)


def at(seconds: float) -> object:
    return START + timedelta(seconds=seconds)


async def beat(store: Store, worker: str = "w1", *held: object, lease: float = LEASE) -> Renewed:
    return await store.extend(worker_info(worker), lease_seconds=lease, held=list(held))  # type: ignore[arg-type]


async def test_a_worker_is_listed_as_it_registered(store: Store, clock: ManualClock) -> None:
    info = worker_info(
        "w1", host="höst", pid=2**31 + 5, version="2.0b1", tasks=("a", "b"), queues=("q", "r")
    )
    await store.register(info, lease_seconds=45)
    clock.advance(10)
    (listed,) = await store.workers()
    assert listed.info == info
    assert (listed.started_at, listed.seen_at, listed.expires_at) == (START, START, at(45))
    assert (listed.late, listed.running) == (False, 0)
    clock.advance(36)
    (listed,) = await store.workers()
    assert listed.late


async def test_nobody_is_there_at_first(store: Store) -> None:
    assert await store.workers() == []


async def test_the_oldest_is_first(store: Store, clock: ManualClock) -> None:
    for worker in ("c", "a", "b"):
        await join(store, worker)
        clock.advance(1)
    assert [one.info.id for one in await store.workers()] == ["c", "a", "b"]


async def test_registering_again_renews_the_lease(store: Store, clock: ManualClock) -> None:
    await join(store)
    clock.advance(20)
    await store.register(worker_info(concurrency=3), lease_seconds=LEASE)
    (listed,) = await store.workers()
    assert (listed.expires_at, listed.seen_at) == (at(50), at(20))
    assert listed.info.concurrency == 3


async def test_what_it_holds_is_counted(store: Store) -> None:
    await join(store, "w1", "w2")
    for _ in range(3):
        await add(store)
    jobs = await take(store, "w1", limit=2)
    await take_one(store, "w2")
    assert {one.info.id: one.running for one in await store.workers()} == {"w1": 2, "w2": 1}
    await succeed(store, jobs[0])
    assert {one.info.id: one.running for one in await store.workers()} == {"w1": 1, "w2": 1}


async def test_a_heartbeat_renews(store: Store, clock: ManualClock) -> None:
    await join(store)
    clock.advance(20)
    assert await beat(store) == Renewed(alive=True)
    (listed,) = await store.workers()
    assert (listed.started_at, listed.seen_at, listed.expires_at) == (START, at(20), at(50))


async def test_a_heartbeat_can_shorten_a_lease(store: Store, clock: ManualClock) -> None:
    await join(store, lease=600)
    await beat(store, lease=5)
    (listed,) = await store.workers()
    assert listed.expires_at == at(5)


async def test_a_heartbeat_of_an_unknown_worker_registers_it(store: Store) -> None:
    assert not (await beat(store)).alive
    job_id = await add(store)
    assert [job.id for job in await take(store)] == [job_id]
    assert (await beat(store)).alive


async def test_a_late_heartbeat_finds_its_jobs_if_nobody_took_them(
    store: Store, clock: ManualClock
) -> None:
    job = await start(store)
    clock.advance(31)
    late = await beat(store, "w1", job)
    assert (late.alive, late.lost) == (False, ())
    assert await store.rescue(limit=10, max_deliveries=3) == []
    await succeed(store, job)


async def test_a_late_heartbeat_is_told_what_was_taken(store: Store, clock: ManualClock) -> None:
    taken = await start(store)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=3)
    late = await beat(store, "w1", taken)
    assert (late.alive, late.lost) == (False, (taken.id,))
    own = await take_one(store)
    assert own.deliveries == 2
    told = await beat(store, "w1", taken, own)
    assert (told.alive, told.lost) == (True, (taken.id,))


@pytest.mark.parametrize("name", ["succeeded", "retry", "released"])
async def test_a_job_that_was_settled_is_no_longer_its_own(store: Store, name: str) -> None:
    job, kept = await start(store), await start(store)
    await end(store, job, outcomes()[name])
    assert (await beat(store, "w1", job, kept)).lost == (job.id,)
    assert (await store.signals("w1", [job, kept])).lost == (job.id,)


async def test_signals_renew_nothing(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    clock.advance(20)
    told = await store.signals("w1", [job])
    assert (told.cancelled, told.lost) == ((), ())
    (listed,) = await store.workers()
    assert (listed.seen_at, listed.expires_at) == (START, at(30))


async def test_signals_without_jobs(store: Store) -> None:
    await join(store)
    told = await store.signals("w1", [])
    assert (told.cancelled, told.lost) == ((), ())


async def test_leaving_is_idempotent(store: Store) -> None:
    await join(store, "w1", "w2")
    await store.deregister("w1")
    await store.deregister("w1")
    await store.deregister("never seen")
    assert await living(store) == ["w2"]


async def test_one_that_leaves_is_told_apart_from_one_whose_lease_ran_out(
    store: Store, clock: ManualClock
) -> None:
    await join(store, "leaves", "dies")
    clock.advance(1)
    await store.deregister("leaves")
    clock.advance(LEASE + 1)
    await store.rescue(limit=10, max_deliveries=3)
    told = {one.info.id: one for one in await store.workers()}
    assert {name: one.left for name, one in told.items()} == {"leaves": True, "dies": False}
    assert member(told["leaves"]).presence is WorkerPresence.STOPPED
    assert member(told["dies"]).presence is WorkerPresence.GONE


async def test_one_that_comes_back_has_not_left(store: Store, clock: ManualClock) -> None:
    await join(store, "w1")
    await store.deregister("w1")
    clock.advance(1)
    await join(store, "w1")
    (told,) = await store.workers()
    assert (told.left, member(told).presence) == (False, WorkerPresence.LIVE)


async def test_a_worker_is_seen_by_others(store: Store, other: Store) -> None:
    await join(store)
    assert [one.info.id for one in await other.workers()] == ["w1"]


async def test_held_is_what_the_store_says_a_worker_holds(store: Store) -> None:
    await join(store, "w1")
    await join(store, "w2")
    ids = [await add(store) for _ in range(3)]
    first = await take(store, "w1", limit=2)
    (other,) = await take(store, "w2", limit=1)
    assert sorted(await store.held("w1"), key=lambda job: job.id) == sorted(
        first, key=lambda job: job.id
    )
    assert await store.held("w2") == [other]
    assert await store.held("unknown") == []
    await succeed(store, first[0])
    assert [job.id for job in await store.held("w1")] == [first[1].id]
    assert {job.id for job in (*first, other)} == set(ids)
