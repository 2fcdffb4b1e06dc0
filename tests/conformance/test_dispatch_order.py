"""The order in which a lease hands out jobs: priority, age, balanced; room and shares of queues."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from offpath.model.lease import LeaseRequest, Order
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    end,
    enqueue,
    join,
    new_job,
    outcomes,
    succeed,
    take_one,
)
from tests.conformance.workflow_builders import ids_of

AGE, BALANCED = Order.AGE, Order.BALANCED


async def lease(
    store: Store, limit: int, *, worker: str = "w1", tasks: tuple[str, ...] = (TASK,), **fields: Any
) -> list[str]:
    """Lease so many of these tasks; their ids."""
    rooms = dict.fromkeys(tasks, limit)
    request = LeaseRequest(worker=worker, limit=limit, tasks=rooms, **fields)
    return ids_of((await store.lease(request)).jobs)


# -- orders --------------------------------------------------------------------------------------


async def test_by_priority_unless_asked_otherwise(store: Store, clock: ManualClock) -> None:
    await join(store)
    old = await add(store)
    clock.advance(1)
    high = await add(store, priority=5)
    early = await add(store, run_at=START - timedelta(seconds=60))
    assert await lease(store, 10) == [high, early, old]


async def test_by_age_nothing_else_matters(store: Store, clock: ManualClock) -> None:
    await join(store)
    ids = []
    for priority in (1, 9, -5, 3):
        ids.append(await add(store, priority=priority))
        clock.advance(1)
    late = await add(store, run_at=START - timedelta(seconds=600), priority=50)
    assert await lease(store, 3, order=AGE) == ids[:3]
    assert await lease(store, 3, order=AGE) == [ids[3], late]


async def test_by_age_over_several_tasks(store: Store, clock: ManualClock) -> None:
    await join(store)
    ids = []
    for n in range(6):
        ids.append(await add(store, "ab"[n % 2], priority=n))
        clock.advance(1)
    assert await lease(store, 4, tasks=("a", "b"), order=AGE) == ids[:4]


async def test_balanced_takes_turns_between_keys(store: Store) -> None:
    await join(store)
    flood = [await add(store, fair_key="big", priority=5) for _ in range(50)]
    small = [await add(store, fair_key="small") for _ in range(3)]
    tiny = await add(store, fair_key="tiny")
    got = await lease(store, 7, order=BALANCED)
    assert set(got) == {*flood[:3], *small[:3], tiny}


async def test_balanced_counts_what_runs_anywhere(store: Store) -> None:
    await join(store, "w1", "w2")
    for _ in range(10):
        await add(store, fair_key="a")
    assert len(await lease(store, 4, worker="w2", order=BALANCED)) == 4
    for _ in range(10):
        await add(store, fair_key="b", priority=-9)
    got = await store.get(await lease(store, 6, order=BALANCED))
    assert Counter(job.fair_key for job in got) == {"b": 5, "a": 1}


async def test_balanced_counts_no_more_what_has_ended(store: Store) -> None:
    await join(store)
    await add(store, fair_key="a")
    job = await take_one(store)
    first = await add(store, fair_key="a", priority=1)
    await add(store, fair_key="b")
    await succeed(store, job)
    assert await lease(store, 1, order=BALANCED) == [first]


async def test_balanced_within_a_key_priority_then_age(store: Store, clock: ManualClock) -> None:
    await join(store)
    low = await add(store, fair_key="a")
    clock.advance(1)
    high = await add(store, fair_key="a", priority=3)
    late = await add(store, fair_key="a", run_at=START - timedelta(seconds=90))
    assert await lease(store, 10, order=BALANCED) == [high, low, late]


async def test_jobs_without_a_fair_key_share_one(store: Store) -> None:
    await join(store)
    for _ in range(10):
        await add(store, priority=9)
    keyed = [await add(store, fair_key="a") for _ in range(2)]
    got = await lease(store, 4, order=BALANCED)
    assert set(keyed) < set(got)


async def test_balanced_looks_at_the_whole_backlog(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job(fair_key="big", priority=9) for _ in range(1_000)))
    behind = [await add(store, fair_key=f"k{n}") for n in range(5)]
    got = await lease(store, 6, order=BALANCED)
    assert set(behind) < set(got)


async def test_one_order_after_another_finds_the_same_jobs(store: Store) -> None:
    await join(store)
    ids = [await add(store, fair_key=str(n % 3), priority=n % 4) for n in range(12)]
    got = await lease(store, 2, order=BALANCED)
    got += await lease(store, 2, order=AGE)
    got += await lease(store, 2)
    held = (await store.held("w1"))[:3]
    for job in held:
        await end(store, job, outcomes()["released"])
    got = [each for each in got if each not in ids_of(held)]
    for order in (BALANCED, AGE, Order.PRIORITY):
        got += await lease(store, 3, order=order)
    assert sorted(got) == ids


# -- room ----------------------------------------------------------------------------------------


async def test_a_queue_has_a_room_of_its_own(store: Store) -> None:
    await join(store)
    first = [await add(store, queue="a", priority=9) for _ in range(4)]
    second = [await add(store, queue="b") for _ in range(4)]
    got = await lease(store, 10, queue_rooms={"a": 2})
    assert set(got) == {*first[:2], *second}


async def test_a_queue_without_room_is_skipped(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job(queue="a", priority=9) for _ in range(300)))
    behind = await add(store, queue="b")
    assert await lease(store, 5, queue_rooms={"a": 0}) == [behind]
    assert await lease(store, 5, queue_rooms={"a": 0}) == []


async def test_rooms_of_tasks_and_queues_both_hold(store: Store) -> None:
    await join(store)
    await enqueue(
        store,
        *(new_job(task, queue=queue) for task in ("a", "b") for queue in "xy" for _ in range(5)),
    )
    request = LeaseRequest(worker="w1", limit=20, tasks={"a": 3, "b": 20}, queue_rooms={"x": 4})
    got = (await store.lease(request)).jobs
    assert Counter(job.task for job in got)["a"] <= 3
    assert Counter(job.queue for job in got)["x"] <= 4
    assert len(got) >= 8


# -- shares --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(Order))
async def test_a_flood_on_one_queue_starves_no_other(store: Store, order: Order) -> None:
    await join(store)
    await enqueue(store, *(new_job(queue="flood", priority=9) for _ in range(200)))
    others = [await add(store, queue=queue) for queue in "abc"]
    got = await lease(store, 8, order=order)
    assert set(others) < set(got)


async def test_queues_are_served_in_turns(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job(queue=q, priority=p) for q, p in (("a", 9), ("b", 0)) * 20))
    got = await store.get(await lease(store, 10))
    assert Counter(job.queue for job in got) == {"a": 5, "b": 5}


async def test_what_was_served_counts(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job(queue=q) for q in "abb" * 20))
    got = await store.get(await lease(store, 6, served={"a": 4}))
    assert Counter(job.queue for job in got) == {"b": 5, "a": 1}


async def test_a_queue_that_has_little_leaves_the_rest_to_others(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job(queue=q) for q in ("a", *"bbbbbbbb")))
    assert len(await lease(store, 9)) == 9


async def test_the_answer_has_the_best_first(store: Store) -> None:
    await join(store)
    jobs = [new_job(queue="ab"[n % 2], priority=n % 5) for n in range(10)]
    await enqueue(store, *jobs)
    best = sorted(jobs, key=lambda job: (-job.priority, job.id))
    assert await lease(store, 10) == ids_of(best)


# -- many ----------------------------------------------------------------------------------------


async def test_each_of_many_fair_keys_has_its_turn_beside_a_big_one(store: Store) -> None:
    await join(store)
    flood = await enqueue(store, *(new_job(fair_key="m") for _ in range(200)))
    keys = [f"{side}{n:03}" for side in "az" for n in range(100)]
    small = await enqueue(store, *(new_job(fair_key=key) for key in keys))
    got = [job for _ in range(21) for job in await lease(store, 10, order=BALANCED)]
    assert {each.job_id for each in small} <= set(got)
    assert len(set(got) & {each.job_id for each in flood}) == 10


async def test_the_best_job_is_found_among_many_fair_keys(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job(fair_key=f"key-{n:03}") for n in range(300)))
    for key in ("zzz", "mmm"):
        urgent = await add(store, fair_key=key, priority=9)
        assert await lease(store, 1, order=BALANCED) == [urgent]


async def test_each_of_many_queues_has_its_turn(store: Store) -> None:
    await join(store)
    queues = [f"queue-{n:03}" for n in range(300)]
    await enqueue(store, *(new_job(queue=queue) for queue in queues for _ in range(3)))
    request = LeaseRequest(worker="w1", limit=100, tasks={TASK: 100})
    seen = Counter[str]()
    for _ in range(9):
        jobs = (await store.lease(request)).jobs
        assert len(jobs) == 100
        seen.update(job.queue for job in jobs)
    assert seen == dict.fromkeys(queues, 3)
    last = await store.lease(request)
    assert (last.jobs, last.more) == ((), False)


async def test_work_behind_many_lanes_that_are_paused_is_found(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job(queue=f"queue-{n:03}") for n in range(150)))
    for n in range(150):
        await store.pause_queue(f"queue-{n:03}")
    nothing = await store.lease(LeaseRequest(worker="w1", limit=5, tasks={TASK: 5}))
    assert (nothing.jobs, nothing.more) == ((), False)
    open_ = await add(store, queue="zzz")
    assert await lease(store, 5) == [open_]
    assert await lease(store, 5) == []
