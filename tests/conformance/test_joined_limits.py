"""Several limits on one job: it takes of all of them or of none, and no limit hides another."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from offpath import Limit, Rate
from offpath.model.job import NewJob
from offpath.model.limit_options import checked_limit, limit_of
from offpath.model.settlement import Released, Settlement, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    TASK,
    end,
    enqueue,
    join,
    new_job,
    record,
    succeed,
    take,
    take_one,
)
from tests.conformance.workflow_builders import fates, ids_of
from tests.conformance.workflow_builders import limit_of as known

pytestmark = pytest.mark.needs("limits")


def limited(*limits: Limit, **fields: Any) -> NewJob:
    """A job with these limits."""
    spec = checked_limit(list(limits))
    assert spec
    return new_job(TASK, limit=limit_of(TASK, spec), **fields)


def of_tenant(tenant: str, most: int = 1, api: int = 3, **fields: Any) -> NewJob:
    """A job of a tenant that uses what all tenants share."""
    return limited(
        Limit("api", max_running=api), Limit(f"tenant:{tenant}", max_running=most), **fields
    )


async def counts(store: Store, *keys: str) -> list[tuple[int, int, int]]:
    """Admitted, running and held of these limits."""
    found = [await known(store, key) for key in keys]
    return [(one.admitted, one.running, one.held) for one in found]


async def test_a_job_starts_when_all_of_its_limits_have_room(store: Store) -> None:
    await join(store)
    jobs = [of_tenant("a"), of_tenant("a"), of_tenant("b"), of_tenant("c"), of_tenant("d")]
    await enqueue(store, *jobs)
    assert (await store.admit(limit=10)).jobs == 3
    ids = ids_of(jobs)
    assert ids_of(await take(store)) == [ids[0], ids[2], ids[3]]
    assert await counts(store, "api", "tenant:a", "tenant:d") == [(3, 3, 2), (1, 1, 1), (0, 0, 1)]
    assert await fates(store, ids[1]) == [("blocked", "limit")]


async def test_what_one_gives_back_goes_to_the_next_that_fits(store: Store) -> None:
    await join(store)
    jobs = [of_tenant("a"), of_tenant("b", api=3), of_tenant("a"), of_tenant("c", api=2)]
    await enqueue(store, *jobs)
    await store.admit(limit=10)
    first, second = await take(store)
    await succeed(store, second)
    # of tenant a the next would be earlier, and its tenant has no room
    (third,) = await take(store)
    await succeed(store, first)
    (last,) = await take(store)
    assert ids_of([first, second, third, last]) == [ids_of(jobs)[n] for n in (0, 1, 3, 2)]
    await succeed(store, third)
    await succeed(store, last)
    assert await counts(store, "api", "tenant:a", "tenant:c") == [(0, 0, 0)] * 3


async def test_a_full_key_hides_nobody_behind_it(store: Store) -> None:
    await join(store)
    crowd = [of_tenant("a", priority=9, api=2) for _ in range(300)]
    await enqueue(store, *crowd)
    await store.admit(limit=10)
    other = of_tenant("b", api=2)
    await enqueue(store, other)
    await store.admit(limit=10)
    assert ids_of(await take(store)) == [crowd[0].id, other.id]


async def test_the_best_of_all_lines_goes_first(store: Store) -> None:
    await join(store)
    jobs = [of_tenant(str(n), api=2, priority=n) for n in range(6)]
    plain = new_job(TASK, limit=checked_limit(Limit("api", max_running=2)) or None, priority=4)
    await enqueue(store, *jobs, plain)
    order = []
    await store.admit(limit=10)
    while held := await take(store):
        order += sorted(job.priority for job in held)
        await asyncio.gather(*(succeed(store, job) for job in held))
        await store.admit(limit=10)
    assert sorted(order[:2]) == [4, 5]
    assert sorted(order) == [0, 1, 2, 3, 4, 4, 5]
    assert order[-1] == 0


async def test_jobs_with_one_of_the_limits_share_it(store: Store) -> None:
    await join(store)
    alone = new_job(TASK, limit=checked_limit(Limit("api", max_running=2)) or None)
    await enqueue(store, of_tenant("a", api=2), alone, of_tenant("b", api=2))
    await store.admit(limit=10)
    first, second = await take(store)
    assert await counts(store, "api") == [(2, 2, 1)]
    await succeed(store, second)
    assert len(await take(store)) == 1
    assert await counts(store, "api") == [(2, 2, 0)]
    await succeed(store, first)
    assert await counts(store, "api") == [(1, 1, 0)]


async def test_a_rate_among_them_counts_starts_and_only_those(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    rate = Limit("api", rate=Rate(2, per=60))
    full = Limit("tenant:a", max_running=1)
    jobs = [
        limited(rate, full),
        limited(rate, full),
        limited(rate, Limit("tenant:b", max_running=1)),
    ]
    await enqueue(store, *jobs)
    # what tenant a refuses takes no start of the rate
    assert (await store.admit(limit=10)).jobs == 2
    held = await take(store)
    assert ids_of(held) == [jobs[0].id, jobs[2].id]
    await succeed(store, held[0])
    waits = await store.admit(limit=10)
    assert waits.jobs == 0
    assert waits.next_in is not None
    clock.advance(waits.next_in + 0.1)
    assert (await store.admit(limit=10)).jobs == 1


async def test_a_cost_takes_more_of_a_limit(store: Store) -> None:
    await join(store)
    big = limited(Limit("memory", max_running=8, cost=5))
    jobs = [
        big,
        limited(Limit("memory", max_running=8, cost=4)),
        limited(Limit("memory", max_running=8, cost=3)),
    ]
    await enqueue(store, *jobs)
    assert (await store.admit(limit=10)).jobs == 2
    held = await take(store)
    assert ids_of(held) == [jobs[0].id, jobs[2].id]
    assert await counts(store, "memory") == [(8, 8, 1)]
    await succeed(store, held[1])
    assert await take(store) == ()
    await succeed(store, held[0])
    assert ids_of(await take(store)) == [jobs[1].id]
    assert await counts(store, "memory") == [(4, 4, 0)]


async def test_a_cost_takes_starts_of_a_rate(store: Store, clock: ManualClock) -> None:
    limit = Limit("api", rate=Rate(10, per=10), cost=6)
    await enqueue(store, limited(limit), limited(limit))
    first = await store.admit(limit=10)
    assert first.jobs == 1
    assert first.next_in == pytest.approx(2.0, abs=0.1)
    clock.advance(1.0)
    assert (await store.admit(limit=10)).jobs == 0
    clock.advance(1.1)
    assert (await store.admit(limit=10)).jobs == 1


async def test_a_pause_of_one_limit_holds_its_jobs_again(store: Store) -> None:
    await join(store)
    jobs = [of_tenant("a"), of_tenant("b")]
    await enqueue(store, *jobs)
    await store.admit(limit=10)
    assert await store.close_limit("tenant:a") == 1
    await store.admit(limit=10)
    assert ids_of(await take(store)) == [jobs[1].id]
    assert await counts(store, "api", "tenant:a") == [(1, 1, 1), (0, 0, 1)]
    assert await store.open_limit("tenant:a")
    await store.admit(limit=10)
    assert ids_of(await take(store)) == [jobs[0].id]


async def test_a_cool_down_closes_the_limit_that_was_named_first(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    await enqueue(store, of_tenant("a"), of_tenant("b"), of_tenant("c", api=3))
    await store.admit(limit=1)
    job = await take_one(store)
    await end(store, job, Snoozed(delay=0, cool_down=30.0))
    admitted = await store.admit(limit=10)
    assert admitted.jobs == 0
    assert admitted.next_in == pytest.approx(30, abs=1)
    assert (await known(store, "api")).closed_until is not None
    assert (await known(store, "tenant:a")).closed_until is None
    clock.advance(31)
    await join(store)
    assert await take(store) == ()  # promotes it
    assert (await store.admit(limit=10)).jobs == 3


async def test_the_only_job_of_a_key_that_it_closed_goes_on_by_itself(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    await enqueue(store, limited(Limit("api", max_running=1)))
    await store.admit(limit=10)
    await end(store, await take_one(store), Snoozed(delay=0, cool_down=30.0))
    clock.advance(31)
    await join(store)
    assert await take(store) == ()  # promotes it
    assert (await store.admit(limit=10)).jobs == 1


async def test_what_is_given_back_while_a_limit_is_closed_waits(store: Store) -> None:
    await join(store)
    await enqueue(store, of_tenant("a"))
    await store.admit(limit=10)
    job = await take_one(store)
    await store.close_limit("tenant:a")
    await end(store, job, Released())
    assert await fates(store, job.id) == [("blocked", "limit")]
    assert await counts(store, "api") == [(0, 0, 1)]


async def test_jobs_that_nobody_takes_make_way_for_those_of_others(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    left = new_job("nobody", limit=of_tenant("a", api=1).limit)
    await enqueue(store, left)
    await store.admit(limit=10)
    other = of_tenant("b", api=1)
    await enqueue(store, other)
    await store.admit(limit=10)
    assert await take(store, tasks={TASK: 1}) == ()
    clock.advance(6)
    await store.admit(limit=10)
    await store.admit(limit=10)  # a pass may find the room in the next one only
    assert ids_of(await take(store, tasks={TASK: 1})) == [other.id]
    assert await fates(store, left.id) == [("blocked", "limit")]


async def test_what_the_last_enqueue_says_of_a_limit_holds(store: Store) -> None:
    await enqueue(store, of_tenant("a", 1), of_tenant("a", 1), of_tenant("a", 3))
    assert (await store.admit(limit=10)).jobs == 3
    assert (await known(store, "tenant:a")).max_running == 3


async def test_lists_show_limits_and_no_lines(store: Store) -> None:
    await join(store)
    await enqueue(store, of_tenant("a"), limited(Limit("gpu", max_running=4, cost=2)))
    await store.admit(limit=10)
    job = (await take(store))[0]
    assert [one.key for one in await store.limits()] == ["api", "gpu", "tenant:a"]
    (holder, _) = await store.limit_holders(["api", "tenant:a"])
    assert (holder.key, holder.job) == ("api", job.id)
    assert (await record(store, job.id)).limit_key == job.limit_key


async def test_limits_that_nobody_needs_are_forgotten(store: Store, clock: ManualClock) -> None:
    await join(store)
    await enqueue(store, of_tenant("a"))
    await store.admit(limit=10)
    job = await take_one(store)
    await store.settle([Settlement(job=job, outcome=Succeeded(), keep=0.0)])
    for _ in range(4):
        clock.advance(timedelta(hours=2).total_seconds())
        await join(store)
        await store.admit(limit=10)
        await store.prune(limit=100)
    assert await store.limits() == []


async def test_random_ends_exceed_no_limit_and_leave_no_room(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    dice = random.Random(7)
    rooms = {"api": 5, "tenant:0": 2, "tenant:1": 2, "tenant:2": 6}
    jobs = [_some(dice, rooms) for _ in range(120)]
    await enqueue(store, *jobs)
    needs = {job.id: job.limit.parts for job in jobs if job.limit is not None}
    running: dict[str, Any] = {}
    ended = 0
    while ended < len(jobs):
        await store.admit(limit=50)
        running |= {job.id: job for job in await take(store, limit=50)}
        taken = _taken(needs, running)
        assert all(taken.get(key, 0) <= most for key, most in rooms.items()), taken
        waiting = [each for each in needs if each not in running]
        assert not any(_fits(needs[each], taken, rooms) for each in waiting)
        for each in dice.sample(sorted(running), min(len(running), 3)):
            await succeed(store, running.pop(each))
            del needs[each]
            ended += 1
    assert await counts(store, *rooms) == [(0, 0, 0)] * len(rooms)


def _some(dice: random.Random, rooms: dict[str, int]) -> NewJob:
    tenant = f"tenant:{dice.randrange(3)}"
    return limited(
        Limit("api", max_running=rooms["api"], cost=dice.randint(1, 3)),
        Limit(tenant, max_running=rooms[tenant]),
        priority=dice.randint(0, 3),
    )


def _taken(needs: dict[str, Any], running: Sequence[str] | dict[str, Any]) -> dict[str, int]:
    taken: dict[str, int] = {}
    for each in running:
        for part in needs[each]:
            taken[part.key] = taken.get(part.key, 0) + part.cost
    return taken


def _fits(parts: Sequence[Any], taken: dict[str, int], rooms: dict[str, int]) -> bool:
    return all(taken.get(part.key, 0) + part.cost <= rooms[part.key] for part in parts)
