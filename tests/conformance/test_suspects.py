"""Suspects: kept apart by the store, halved by each crash, and buried only where they ran alone."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from offpath.model.job import DeadReason, JobState, LeasedJob
from offpath.model.lease import Leased, LeaseRequest, Rescued
from offpath.model.settlement import Released
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    LEASE,
    TASK,
    add,
    end,
    enqueue,
    join,
    new_job,
    record,
    settle,
    succeed,
    take,
    unique,
)

SLOTS = 100


async def ask_apart(
    store: Store,
    worker: str = "w1",
    *,
    limit: int = SLOTS,
    tasks: dict[str, int] | None = None,
    queues: tuple[str, ...] = (),
    declined: tuple[str, ...] = (),
) -> Leased:
    rooms = {TASK: SLOTS} if tasks is None else tasks
    request = LeaseRequest(
        worker=worker,
        limit=limit,
        tasks=rooms,
        queues=queues,
        declined=declined,
        suspects_only=True,
    )
    return await store.lease(request)


async def take_apart(store: Store, worker: str = "w1") -> tuple[LeasedJob, ...]:
    """Lease a set of suspects, and begin it."""
    jobs = (await ask_apart(store, worker)).jobs
    if jobs:
        assert await store.begin(jobs) == {job.id for job in jobs}
    return jobs


async def crash(store: Store, worker: str, *, most: int = 3) -> list[Rescued]:
    """A worker is gone; its jobs are taken back."""
    await store.deregister(worker)
    return await store.rescue(limit=1000, max_deliveries=most)


async def suspected(store: Store, count: int) -> list[str]:
    """Ids of jobs that are suspects of one crash: two workers died with all of them."""
    ids = [await add(store) for _ in range(count)]
    for worker in ("early1", "early2"):
        await join(store, worker)
        assert len(await take(store, worker)) == count
        await crash(store, worker)
    return ids


async def test_a_plain_lease_passes_over_suspects(store: Store) -> None:
    await suspected(store, 3)
    other = await add(store)
    await join(store)
    assert [job.id for job in await take(store)] == [other]
    for order in ("age", "balanced"):
        request = LeaseRequest(worker="w1", limit=9, tasks={TASK: 9}, order=order)  # type: ignore[arg-type]
        assert (await store.lease(request)).jobs == ()


async def test_suspects_come_in_halves_of_what_is_left(store: Store) -> None:
    ids = await suspected(store, 6)
    await join(store, "w1", "w2", "w3")
    assert [job.id for job in await take_apart(store, "w1")] == ids[:3]
    assert [job.id for job in await take_apart(store, "w2")] == ids[3:]
    assert await take_apart(store, "w3") == ()


async def test_what_ends_well_leaves_a_smaller_set(store: Store) -> None:
    ids = await suspected(store, 8)
    await join(store)
    for job in await take_apart(store):
        await succeed(store, job)
    assert [job.id for job in await take_apart(store)] == ids[4:6]


async def test_a_worker_has_one_set_at_a_time(store: Store) -> None:
    await suspected(store, 4)
    await join(store)
    held = await take_apart(store)
    assert (await ask_apart(store)).jobs == ()
    for job in held:
        await succeed(store, job)
    assert len(await take_apart(store)) == 1


async def test_a_look_takes_none(store: Store) -> None:
    await join(store)
    assert not (await ask_apart(store, limit=0)).more
    await suspected(store, 2)
    assert await ask_apart(store, limit=0) == await ask_apart(store, limit=0)
    assert (await ask_apart(store, limit=0)).more
    assert not (await ask_apart(store, limit=0, tasks={"other": 5})).more
    assert not (await ask_apart(store, limit=0, queues=("other",))).more
    assert (await ask_apart(store, "nobody")).jobs == ()


async def test_declined_suspects_and_paused_queues_are_left(store: Store) -> None:
    ids = await suspected(store, 2)
    await join(store)
    assert [job.id for job in (await ask_apart(store, declined=(ids[0],))).jobs] == [ids[1]]
    await crash(store, "w1")
    await join(store, "w2")
    await store.pause_queue("default")
    assert (await ask_apart(store, "w2")).jobs == ()


async def test_a_reserved_suspect_has_lost_nothing(store: Store) -> None:
    ids = await suspected(store, 1)
    for number in range(10):
        await join(store, f"w{number}")
        (job,) = (await ask_apart(store, f"w{number}")).jobs
        assert (await record(store, job.id)).started_at is None
        (rescued,) = await crash(store, f"w{number}")
        assert (rescued.state, rescued.job.losses) == (JobState.QUEUED, 2)
    assert (await record(store, ids[0])).losses == 2


async def test_only_what_is_still_held_begins(store: Store, clock: ManualClock) -> None:
    await suspected(store, 4)
    await join(store)
    first, second = (await ask_apart(store)).jobs
    await end(store, first, Released())
    assert await store.begin((first, second)) == {second.id}
    assert (await record(store, second.id)).started_at == clock.now()
    assert await store.begin((first, second)) == {second.id}


async def test_the_last_loss_buries_who_ran_alone(store: Store) -> None:
    (job_id,) = await suspected(store, 1)
    await join(store)
    assert len(await take_apart(store)) == 1
    (rescued,) = await crash(store, "w1")
    assert rescued.state is JobState.DEAD
    stored = await record(store, job_id)
    assert (stored.reason, stored.losses) == (DeadReason.WORKER_LOST, 3)


@pytest.mark.parametrize("begun_first", [True, False])
async def test_what_begins_at_once_beside_a_suspect_ends_its_being_alone(
    store: Store, *, begun_first: bool
) -> None:
    """A job that begins inline begins whatever runs there: the next crash may be its doing."""
    (job_id,) = await suspected(store, 1)
    await join(store)
    (suspect,) = (await ask_apart(store)).jobs
    if begun_first:
        assert await store.begin([suspect]) == {job_id}
    assert await store.start(new_job(), "w1") is not None
    assert await store.begin([suspect]) == {job_id}
    assert {one.state for one in await crash(store, "w1")} == {JobState.QUEUED}
    await join(store, "w2")
    assert [job.id for job in await take_apart(store, "w2")] == [job_id]
    await join(store, "w3")
    assert await store.start(new_job(), "w3") is not None
    (rescued,) = await crash(store, "w2")
    assert rescued.state is JobState.DEAD


async def test_no_number_of_losses_buries_who_ran_beside_others(store: Store) -> None:
    await suspected(store, 6)
    for number in range(20):
        await join(store, f"w{number}")
        held = await take_apart(store, f"w{number}")
        alone = len(held) == 1
        rescued = await crash(store, f"w{number}")
        assert all(one.state is JobState.QUEUED or alone for one in rescued)


async def test_with_one_delivery_the_first_loss_is_the_last(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job() for _ in range(5)))
    await take(store)
    assert {one.state for one in await crash(store, "w1", most=1)} == {JobState.DEAD}


async def test_a_worker_that_falls_out_of_touch_says_little_of_its_jobs(
    store: Store, clock: ManualClock
) -> None:
    """A machine that goes away, as often as it does: ten times as many losses are allowed."""
    job_id = await add(store)
    for losses in range(1, 30):
        await join(store, f"w{losses}")
        assert len(await take(store, f"w{losses}")) == 1
        clock.advance(LEASE + 1)
        (rescued,) = await store.rescue(limit=10, max_deliveries=3)
        assert (rescued.state, rescued.job.losses) == (JobState.QUEUED, losses)
    await join(store, "last")
    assert await take(store, "last") == ()
    assert len(await take_apart(store, "last")) == 1
    clock.advance(LEASE + 1)
    (rescued,) = await store.rescue(limit=10, max_deliveries=3)
    assert (rescued.state, rescued.job.id) == (JobState.DEAD, job_id)
    assert "out of touch: nobody saw it end" in (await record(store, job_id)).failures[0].message


async def test_a_redriven_job_is_no_suspect(store: Store) -> None:
    (job_id,) = await suspected(store, 1)
    await join(store, "w1", "w2")
    await take_apart(store)
    await crash(store, "w1")
    await store.redrive([JobRedrive(id=job_id)])
    assert [job.id for job in await take(store, "w2")] == [job_id]


async def test_one_that_kills_is_found_in_six_crashes_of_its_set(store: Store) -> None:
    """A pill among sixty: each crash halves its set, and clears the rest."""
    ids = await suspected(store, 60)
    pill = random.Random(7).choice(ids)
    crashes = await _run_apart(store, {pill})
    assert crashes <= 6
    states = {job_id: (await record(store, job_id)).state for job_id in ids}
    assert {job_id for job_id, state in states.items() if state is JobState.DEAD} == {pill}
    assert set(states.values()) == {JobState.DEAD, JobState.SUCCEEDED}


@pytest.mark.parametrize("seed", range(2))
async def test_several_that_kill_are_found_and_nobody_else_dies(store: Store, seed: int) -> None:
    ids = await suspected(store, 20)
    pills = set(random.Random(seed).sample(ids, 4))
    await _run_apart(store, pills)
    states = {job_id: (await record(store, job_id)).state for job_id in ids}
    assert {job_id for job_id, state in states.items() if state is JobState.DEAD} == pills


async def _run_apart(store: Store, pills: Iterable[str]) -> int:
    """Workers run sets until there are none; who holds a pill dies. How many died."""
    crashes = 0
    for number in range(1_000):
        worker = f"run{number}"
        await join(store, worker)
        held = await take_apart(store, worker)
        if not held:
            return crashes
        if any(job.id in pills for job in held):
            crashes += 1
            await crash(store, worker)
        else:
            for job in held:
                await succeed(store, job)
            await store.deregister(worker)
    raise AssertionError("there is no end of it")


async def test_a_storm_of_kills_buries_nobody_who_did_not_run_alone(
    store: Store, clock: ManualClock
) -> None:
    """Sixty random kills among three workers that hold ten jobs each."""
    dice = random.Random(11)
    ids = [job.id for job in (new_job() for _ in range(120))]
    await enqueue(store, *(new_job(id=job_id) for job_id in ids))
    crew = [f"s{number}" for number in range(3)]
    await join(store, *crew)
    for number in range(60):
        for worker in crew:
            await _work(store, worker, dice)
        doomed = crew.pop(dice.randrange(3))
        held = {job.id: job for job in await store.held(doomed)}
        clock.advance(1)
        for one in await crash(store, doomed):
            assert one.state is JobState.QUEUED or len(held) == 1, one
        crew.append(f"s{number + 3}")
        await join(store, *crew)
    left = [await record(store, job_id) for job_id in ids]
    assert max(job.losses for job in left) >= 3, "else this tests nothing"


async def _work(store: Store, worker: str, dice: random.Random) -> None:
    """One turn of a worker: ends some of what it holds, and takes what there is."""
    held = await store.held(worker)
    ended = [job for job in held if dice.random() < 0.6]
    for job in ended:
        await succeed(store, job)
    if len(ended) < len(held):
        return
    if not await take_apart(store, worker):
        await take(store, worker, limit=10)


async def test_of_suspects_with_one_key_one_runs_at_a_time(store: Store) -> None:
    """The key is held while a job runs: the other one waits, and hides nobody."""
    claim = unique("one", states=(JobState.RUNNING,))
    ids = [await add(store, unique=claim), await add(store, unique=claim)]
    ids += [await add(store) for _ in range(4)]
    for worker in ("early1", "early2", "early3", "early4"):
        await join(store, worker)
        await take(store, worker, tasks={TASK: 100})
        await crash(store, worker)
    await join(store, "w1", "w2")
    first = [job.id for job in await take_apart(store, "w1")]
    assert ids[0] in first
    assert ids[1] not in first
    assert ids[1] not in [job.id for job in await take_apart(store, "w2")]


async def test_a_cancelled_suspect_ends_at_once(store: Store) -> None:
    ids = await suspected(store, 2)
    changed = await store.cancel(ids)
    assert {one.state for one in changed} == {JobState.CANCELLED}
    await join(store)
    assert not (await ask_apart(store, limit=0)).more


async def test_a_suspect_that_fails_like_others_stays_apart(
    store: Store, clock: ManualClock
) -> None:
    (job_id,) = await suspected(store, 1)
    await join(store)
    (job,) = await take_apart(store)
    await settle(store, job, Released())
    clock.advance(LEASE / 3)
    assert await take(store) == ()
    assert [job.id for job in await take_apart(store)] == [job_id]
