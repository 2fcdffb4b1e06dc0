"""Limits by key: never more than so many ready and running jobs, and no room is lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from offpath.model.effects import Effects
from offpath.model.limit import LimitSpec
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    die,
    end,
    enqueue,
    join,
    new_job,
    outcomes,
    record,
    start,
    succeed,
    take,
    take_one,
)
from tests.conformance.workflow_builders import (
    LATER,
    fates,
    gate_on,
    hold_limited,
    ids_of,
    limit_of,
    limited,
    settle_with,
    signal,
    waiting,
)

pytestmark = pytest.mark.needs("limits")


async def test_a_limited_job_waits_to_be_admitted(store: Store) -> None:
    await join(store)
    job = limited()
    (answer,) = await enqueue(store, job)
    assert answer.created
    assert await fates(store, job.id) == [("blocked", "limit")]
    assert (await record(store, job.id)).limit_key == "api"
    assert await take(store) == ()
    admitted = await store.admit(limit=10)
    assert (admitted.jobs, admitted.more) == (1, False)
    assert await fates(store, job.id) == [("queued", None)]
    (held,) = await take(store)
    assert (held.id, held.limit_key) == (job.id, "api")


async def test_no_more_than_the_room_are_admitted(store: Store) -> None:
    await join(store)
    ids = await hold_limited(store, 5, 2)
    assert (await store.admit(limit=10)).jobs == 2
    assert (await store.admit(limit=10)).jobs == 0
    assert ids_of(await take(store)) == ids[:2]
    assert (await store.admit(limit=10)).jobs == 0
    known = await limit_of(store)
    assert (known.max_running, known.admitted, known.running, known.held) == (2, 2, 2, 3)


async def test_without_a_maximum_all_are_admitted(store: Store) -> None:
    await hold_limited(store, 5, None)
    assert (await store.admit(limit=10)).jobs == 5


async def test_nothing_to_admit(store: Store) -> None:
    admitted = await store.admit(limit=10)
    assert (admitted.jobs, admitted.more, admitted.next_in) == (0, False, None)
    await add(store)
    assert (await store.admit(limit=10)).jobs == 0


async def test_the_end_of_one_lets_in_the_next(store: Store) -> None:
    await join(store)
    ids = await hold_limited(store, 3)
    await store.admit(limit=10)
    order = []
    for _ in range(3):
        job = await take_one(store)
        order.append(job.id)
        await succeed(store, job)
        await store.admit(limit=10)
    assert order == ids
    known = await limit_of(store)
    assert (known.admitted, known.held) == (0, 0)


async def test_the_next_is_let_in_right_after_a_settlement(store: Store) -> None:
    await join(store)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await succeed(store, await take_one(store))
    assert ids_of(await take(store)) == ids[1:]


@pytest.mark.parametrize("name", ["dead", "cancelled", "retry", "snoozed"])
async def test_every_attempt_that_leaves_gives_its_room_back(store: Store, name: str) -> None:
    await join(store)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    first = await take_one(store)
    await end(store, first, outcomes()[name])
    await store.admit(limit=10)
    assert ids_of(await take(store)) == ids[1:]


async def test_a_wait_for_a_signal_gives_its_room_back(store: Store) -> None:
    await join(store)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await settle_with(store, await take_one(store), Effects(), waiting())
    await store.admit(limit=10)
    second = await take_one(store)
    assert second.id == ids[1]
    await store.send_signal(signal())
    assert await fates(store, ids[0]) == [("blocked", "limit")]
    await store.admit(limit=10)
    assert await take(store) == ()
    await succeed(store, second)
    await store.admit(limit=10)
    assert ids_of(await take(store)) == ids[:1]


async def test_a_cancel_gives_its_room_back(store: Store) -> None:
    await join(store)
    ids = await hold_limited(store, 3)
    await store.admit(limit=10)
    await store.cancel(ids[:1])  # admitted, not taken
    assert (await limit_of(store)).admitted == 0
    await store.cancel(ids[1:2])  # held
    assert (await limit_of(store)).held == 1
    await store.admit(limit=10)
    assert ids_of(await take(store)) == ids[2:]


async def test_a_released_job_keeps_its_room(store: Store) -> None:
    await join(store)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await end(store, await take_one(store), outcomes()["released"])
    assert (await store.admit(limit=10)).jobs == 0
    assert ids_of(await take(store)) == ids[:1]


async def test_a_job_of_a_lost_worker_does_not_hold_its_room_for_ever(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await take_one(store)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=1)
    assert (await limit_of(store)).admitted == 0
    await store.admit(limit=10)
    await join(store)
    assert ids_of(await take(store)) == ids[1:]


async def test_a_rescued_job_is_counted_once(store: Store, clock: ManualClock) -> None:
    await join(store)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await take_one(store)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=9)
    await store.admit(limit=10)
    await join(store)
    first = await take(store)
    assert ids_of(first) == ids[:1]
    assert (await limit_of(store)).admitted == 1
    await succeed(store, first[0])
    await store.admit(limit=10)
    assert ids_of(await take(store)) == ids[1:]


async def test_a_retried_job_comes_back_as_held(store: Store, clock: ManualClock) -> None:
    await join(store)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await end(store, await take_one(store), outcomes()["retry"])
    await store.admit(limit=10)
    second = await take_one(store)
    assert second.id == ids[1]
    clock.advance(6)
    assert await take(store) == ()  # promotes it
    await store.admit(limit=10)
    assert await fates(store, ids[0]) == [("blocked", "limit")]
    await succeed(store, second)
    await store.admit(limit=10)
    (again,) = await take(store)
    assert (again.id, again.attempt) == (ids[0], 2)


async def test_a_scheduled_job_is_held_when_it_is_due(store: Store, clock: ManualClock) -> None:
    await join(store)
    job = limited(delay=10)
    await enqueue(store, job)
    assert await fates(store, job.id) == [("queued", None)]
    assert (await store.admit(limit=10)).jobs == 0
    clock.advance(10)
    assert await take(store) == ()
    assert await fates(store, job.id) == [("blocked", "limit")]
    await store.admit(limit=10)
    assert ids_of(await take(store)) == [job.id]


async def test_a_gated_job_is_held_when_it_is_released(store: Store) -> None:
    first = await start(store)
    gate = gate_on(first.id)
    job = limited(task=LATER, gate=gate.id)
    await store.commit(Effects(jobs=(job,), gates=(gate,)))
    assert (await store.admit(limit=10)).jobs == 0
    await succeed(store, first)
    assert await fates(store, job.id) == [("blocked", "limit")]
    await store.admit(limit=10)
    assert ids_of(await take(store, tasks={LATER: 1})) == [job.id]


async def test_a_redriven_job_is_held(store: Store) -> None:
    await join(store)
    (job_id,) = await hold_limited(store, 1)
    await store.admit(limit=10)
    await die(store, await take_one(store))
    await store.redrive([JobRedrive(id=job_id)])
    assert await fates(store, job_id) == [("blocked", "limit")]
    await store.admit(limit=10)
    assert ids_of(await take(store)) == [job_id]


async def test_children_with_a_limit_are_held(store: Store) -> None:
    job = await start(store)
    child = limited()
    await end(store, job, Succeeded(), effects=[child])
    assert await fates(store, child.id) == [("blocked", "limit")]


async def test_a_deadline_passes_while_held(store: Store, clock: ManualClock) -> None:
    ids = ids_of(jobs := [limited(deadline_in=5.0) for _ in range(2)])
    await enqueue(store, *jobs)
    await store.admit(limit=10)
    await join(store)
    assert ids_of(await take(store)) == ids[:1]
    clock.advance(6)
    (changed,) = await store.expire_blocked(limit=10)
    assert (changed.id, changed.group_done) == (ids[1], True)
    assert await fates(store, ids[1]) == [("dead", "deadline")]
    assert (await limit_of(store)).held == 0


# -- order ---------------------------------------------------------------------------------------


async def test_within_a_key_priority_then_age_decide(store: Store) -> None:
    await join(store)
    low, high, next_high = limited(), limited(priority=5), limited(priority=5)
    early = limited(run_at=START - timedelta(seconds=60))
    await enqueue(store, low, high, next_high, early)
    order = []
    for _ in range(4):
        await store.admit(limit=10)
        job = await take_one(store)
        order.append(job.id)
        await succeed(store, job)
    assert order == ids_of([high, next_high, early, low])


async def test_an_admitted_job_keeps_its_place(store: Store) -> None:
    await join(store)
    (first,) = await hold_limited(store, 1)
    await store.admit(limit=10)
    await enqueue(store, limited(priority=9))
    await store.admit(limit=10)
    assert ids_of(await take(store)) == [first]


async def test_every_key_gets_its_turn(store: Store) -> None:
    await enqueue(store, *(limited(f"k{n}") for n in range(10) for _ in range(2)))
    passes = [await store.admit(limit=4) for _ in range(4)]
    assert [each.jobs for each in passes] == [4, 4, 2, 0]
    assert [each.more for each in passes[:2]] == [True, True]
    assert not passes[3].more


async def test_a_pass_may_be_bound_to_keys(store: Store) -> None:
    await hold_limited(store, 1, key="a")
    await hold_limited(store, 1, key="b")
    assert (await store.admit(limit=10, keys=["b", "unknown"])).jobs == 1
    assert (await limit_of(store, "a")).held == 1
    assert (await limit_of(store, "b")).admitted == 1


async def test_a_key_at_its_limit_hides_nothing(store: Store) -> None:
    await join(store)
    jobs = [limited(priority=9) for _ in range(200)]
    free = new_job()
    await enqueue(store, *jobs, free)
    await store.admit(limit=1000)
    assert ids_of(await take(store, limit=2)) == [jobs[0].id, free.id]


async def test_the_last_enqueue_says_what_the_limit_is(store: Store) -> None:
    await hold_limited(store, 3, 1)
    await store.admit(limit=10)
    await hold_limited(store, 1, 3)
    assert (await store.admit(limit=10)).jobs == 2
    assert (await limit_of(store)).max_running == 3
    await hold_limited(store, 1, 2)
    assert (await store.admit(limit=10)).jobs == 0
    known = await limit_of(store)
    assert (known.max_running, known.admitted, known.held) == (2, 3, 2)


async def test_jobs_that_nobody_takes_give_way(store: Store, clock: ManualClock) -> None:
    await join(store)
    stuck = limited(task="nobody.runs", priority=9)
    served = limited()
    await enqueue(store, stuck, served)
    await store.admit(limit=10)
    assert await fates(store, stuck.id, served.id) == [("queued", None), ("blocked", "limit")]
    clock.advance(4)
    await store.admit(limit=10)
    assert await take(store) == ()
    clock.advance(2)
    await store.admit(limit=10)
    (job,) = await take(store)
    assert job.id == served.id
    assert (await limit_of(store)).admitted == 1
    await succeed(store, job)
    await store.admit(limit=10)
    assert await fates(store, stuck.id) == [("queued", None)]


async def test_jobs_that_nobody_takes_stay_where_nobody_else_waits(
    store: Store, clock: ManualClock
) -> None:
    (job_id,) = await hold_limited(store, 1)
    await store.admit(limit=10)
    clock.advance(60)
    await store.admit(limit=10)
    assert await fates(store, job_id) == [("queued", None)]


# -- looking -------------------------------------------------------------------------------------


async def test_limits_are_listed_by_name_in_pages(store: Store) -> None:
    for key in ("c", "a", "b"):
        await hold_limited(store, 1, key=key)
    await store.admit(limit=10)
    assert [each.key for each in await store.limits()] == ["a", "b", "c"]
    assert [each.key for each in await store.limits(limit=2)] == ["a", "b"]
    assert [each.key for each in await store.limits(limit=2, after="b")] == ["c"]
    assert [each.key for each in await store.limits(keys=["c", "none", "a"])] == ["a", "c"]


async def test_a_repeated_enqueue_is_held_once(store: Store) -> None:
    job = limited()
    await enqueue(store, job)
    await enqueue(store, job)
    assert (await store.admit(limit=10)).jobs == 1
    (again,) = await enqueue(store, job)
    assert not again.created
    assert (await limit_of(store)).admitted == 1


# -- races ---------------------------------------------------------------------------------------


async def test_a_limit_holds_when_everybody_admits_leases_and_settles(
    rivals: tuple[Store, ...],
) -> None:
    store = rivals[0]
    workers = [f"w{n}" for n in range(4)]
    await join(store, *workers, lease=600)
    keys = {"a": 1, "b": 3, "c": 5}
    for key, room in keys.items():
        await enqueue(store, *(limited(key, room) for _ in range(40)))
    running: dict[str, int] = dict.fromkeys(keys, 0)
    done = 0

    async def work(n: int) -> None:
        nonlocal done
        idle = 0
        while done < 120 and idle < 200:
            await rivals[n].admit(limit=20)
            jobs = await take(rivals[n], workers[n], limit=4)
            idle = 0 if jobs else idle + 1
            for job in jobs:
                assert job.limit_key is not None
                running[job.limit_key] += 1
                assert running[job.limit_key] <= keys[job.limit_key]
            for known in await rivals[n].limits():
                assert known.running <= known.admitted <= keys[known.key]
            for job in jobs:
                running[job.limit_key or ""] -= 1
            await rivals[n].settle([Settlement(job=job, outcome=Succeeded()) for job in jobs])
            done += len(jobs)

    await asyncio.gather(*(work(n) for n in range(4)))
    assert done == 120
    for known in await store.limits():
        assert (known.admitted, known.running, known.held) == (0, 0, 0)


async def test_admission_in_many_places_at_once_is_exact(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    await join(store)
    await enqueue(store, *(limited("a", 7) for _ in range(50)))
    admitted = await asyncio.gather(*(rivals[n % 4].admit(limit=50) for n in range(12)))
    assert sum(each.jobs for each in admitted) == 7
    assert len(await take(store)) == 7
    assert (await limit_of(store, "a")).admitted == 7


async def test_tasks_share_a_key(store: Store) -> None:
    await join(store)
    jobs = [limited(task=task) for task in (TASK, LATER)]
    await enqueue(store, *jobs)
    await store.admit(limit=10)
    assert len(await take(store, tasks={TASK: 5, LATER: 5})) == 1


async def test_a_limit_may_have_any_name(store: Store) -> None:
    key = "user:zoë 🙂 'quoted' \"%s\""
    job = new_job(limit=LimitSpec(key=key, max_running=1))
    await enqueue(store, job)
    assert (await store.admit(limit=10, keys=[key])).jobs == 1
    assert (await limit_of(store, key)).admitted == 1
