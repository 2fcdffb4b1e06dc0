"""Rates by key: so many starts in so much time, in the whole fleet, by the store's clock."""

from __future__ import annotations

import asyncio

import pytest

from offpath.model.limit import Algorithm, RateSpec
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import end, enqueue, join, outcomes, take, take_one
from tests.conformance.workflow_builders import ids_of, limit_of, limited

pytestmark = pytest.mark.needs("limits")

ALGORITHMS = list(Algorithm)


async def _held(
    store: Store, count: int, rate: RateSpec, max_running: int | None = None
) -> list[str]:
    jobs = [limited("api", max_running, rate) for _ in range(count)]
    await enqueue(store, *jobs)
    return ids_of(jobs)


async def _start_of_a_minute(clock: ManualClock) -> None:
    """Windows that are aligned begin anew."""
    clock.advance(60 - clock.now().timestamp() % 60)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_so_many_and_no_more(store: Store, clock: ManualClock, algorithm: Algorithm) -> None:
    await _start_of_a_minute(clock)
    ids = await _held(store, 8, RateSpec(count=3, per=60, algorithm=algorithm))
    admitted = await store.admit(limit=10)
    assert admitted.jobs == 3
    assert admitted.next_in is not None
    assert 0 < admitted.next_in <= 120
    assert (await store.admit(limit=10)).jobs == 0
    await join(store)
    assert ids_of(await take(store)) == ids[:3]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_when_the_next_may_start_is_told_and_true(
    store: Store, clock: ManualClock, algorithm: Algorithm
) -> None:
    await _start_of_a_minute(clock)
    await _held(store, 20, RateSpec(count=3, per=60, algorithm=algorithm))
    started = (await store.admit(limit=10)).jobs
    for _ in range(4):
        admitted = await store.admit(limit=10)
        assert admitted.jobs == 0
        assert admitted.next_in is not None
        clock.advance(admitted.next_in - 0.5)
        assert (await store.admit(limit=10)).jobs == 0
        clock.advance(0.6)
        jobs = (await store.admit(limit=10)).jobs
        assert jobs >= 1
        started += jobs
    assert started <= 20


async def test_a_bucket_refills_evenly(store: Store, clock: ManualClock) -> None:
    await _held(store, 20, RateSpec(count=6, per=60))
    assert (await store.admit(limit=10)).jobs == 6
    counts = []
    for _ in range(4):
        clock.advance(10.01)
        counts.append((await store.admit(limit=10)).jobs)
    assert counts == [1, 1, 1, 1]
    clock.advance(600)
    assert (await store.admit(limit=10)).jobs == 6


async def test_a_fixed_window_opens_again_whole(store: Store, clock: ManualClock) -> None:
    rate = RateSpec(count=3, per=60, algorithm=Algorithm.FIXED_WINDOW)
    await _held(store, 20, rate)
    assert (await store.admit(limit=10)).jobs == 3
    clock.advance(59)
    assert (await store.admit(limit=10)).jobs == 0
    clock.advance(1.5)
    assert (await store.admit(limit=10)).jobs == 3


async def test_a_sliding_window_forgets_little_by_little(store: Store, clock: ManualClock) -> None:
    await _start_of_a_minute(clock)
    rate = RateSpec(count=4, per=60, algorithm=Algorithm.SLIDING_WINDOW)
    await _held(store, 20, rate)
    assert (await store.admit(limit=10)).jobs == 4
    clock.advance(60)
    assert (await store.admit(limit=10)).jobs == 0
    clock.advance(31)
    assert (await store.admit(limit=10)).jobs == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_start_that_is_not_asked_for_costs_nothing(
    store: Store, clock: ManualClock, algorithm: Algorithm
) -> None:
    await _start_of_a_minute(clock)
    rate = RateSpec(count=3, per=60, algorithm=algorithm)
    for _ in range(3):
        await _held(store, 1, rate)
        assert (await store.admit(limit=10)).jobs == 1
        assert (await store.admit(limit=10)).jobs == 0
    await _held(store, 1, rate)
    assert (await store.admit(limit=10)).jobs == 0


async def test_the_smaller_of_room_and_rate_counts(store: Store, clock: ManualClock) -> None:
    await join(store, lease=600)
    await _held(store, 10, RateSpec(count=3, per=60), 2)
    assert (await store.admit(limit=10)).jobs == 2
    for job in await take(store):
        await store.cancel([job.id])
        await end(store, job, outcomes()["succeeded"])
    await store.admit(limit=10)
    assert (await limit_of(store)).admitted == 1
    assert len(await take(store)) == 1
    clock.advance(300)
    assert (await store.admit(limit=10)).jobs == 1


async def test_a_retry_is_another_start(store: Store, clock: ManualClock) -> None:
    await join(store, lease=600)
    (job_id,) = await _held(store, 1, RateSpec(count=1, per=60))
    await store.admit(limit=10)
    await end(store, await take_one(store), outcomes()["retry"])
    clock.advance(6)
    await take(store)  # promotes it
    assert (await store.admit(limit=10)).jobs == 0
    clock.advance(60)
    assert (await store.admit(limit=10)).jobs == 1
    assert ids_of(await take(store)) == [job_id]


async def test_keys_have_rates_of_their_own(store: Store) -> None:
    rate = RateSpec(count=1, per=60)
    await enqueue(store, *(limited(key, None, rate) for key in "ab" for _ in range(3)))
    assert (await store.admit(limit=10)).jobs == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_rate_holds_over_the_fleet(rivals: tuple[Store, ...], algorithm: Algorithm) -> None:
    store = rivals[0]
    await enqueue(
        store,
        *(
            limited("api", None, RateSpec(count=9, per=3600, algorithm=algorithm))
            for _ in range(40)
        ),
    )
    admitted = await asyncio.gather(*(rivals[n % 4].admit(limit=4) for n in range(16)))
    assert sum(each.jobs for each in admitted) == 9


async def test_a_key_with_many_held_jobs_takes_no_other_keys_turn(
    store: Store, clock: ManualClock
) -> None:
    """Its rate lets in one of them, whatever share of the pass they would fill."""
    slow = RateSpec(count=1, per=1)
    many = [limited(key, None, slow) for key in "abc" for _ in range(60)]
    free = limited("z", 1)
    await enqueue(store, *many, free)
    for passes in range(1, 4):
        await store.admit(limit=50)
        assert [(await limit_of(store, key)).admitted for key in "abc"] == [passes] * 3
        assert (await limit_of(store, "z")).admitted == 1
        clock.advance(1)


async def test_a_pass_says_when_its_bound_kept_something_back(store: Store) -> None:
    await enqueue(store, *[limited(key, 30) for key in "ab" for _ in range(40)])
    jobs, more = 0, True
    while more:
        done = await store.admit(limit=20)
        jobs, more = jobs + done.jobs, done.more
    assert jobs == 60


@pytest.mark.parametrize("before", ALGORITHMS)
@pytest.mark.parametrize("after", ALGORITHMS)
async def test_a_rate_that_is_counted_otherwise_starts_anew(
    store: Store, clock: ManualClock, before: Algorithm, after: Algorithm
) -> None:
    """The rest of one must not pass for what was used of the other."""
    await _start_of_a_minute(clock)
    await _held(store, 1, RateSpec(count=5, per=60, algorithm=before))
    assert (await store.admit(limit=10)).jobs == 1
    await _held(store, 9, RateSpec(count=5, per=60, algorithm=after))
    assert (await store.admit(limit=10)).jobs == (4 if before is after else 5)
