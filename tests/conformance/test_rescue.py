"""Jobs of workers that are gone: taken back, counted, ended when that happens too often."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from offpath.model.job import DeadReason, JobState, LeasedJob
from offpath.model.lease import LeaseRequest, Rescued, holder_of
from offpath.model.settlement import Released, SettleStatus, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    LEASE,
    START,
    TASK,
    add,
    end,
    enqueue,
    join,
    living,
    new_job,
    record,
    settle,
    start,
    succeed,
    take,
    take_one,
    worker_info,
)
from tests.conformance.message_builders import hand, hand_one, ids, put


async def rescue(store: Store, limit: int = 100, max_deliveries: int = 3) -> list[Rescued]:
    return await store.rescue(limit=limit, max_deliveries=max_deliveries)


async def held(store: Store, worker: str, count: int) -> tuple[LeasedJob, ...]:
    """Jobs that a worker has taken."""
    await join(store, worker)
    await enqueue(store, *(new_job() for _ in range(count)))
    jobs = await take(store, worker, limit=count)
    assert len(jobs) == count
    return jobs


async def test_an_expired_lease_gives_the_job_back(store: Store, clock: ManualClock) -> None:
    job = await start(store, run_at=START - timedelta(seconds=5))
    clock.advance(LEASE - 1)
    assert await rescue(store) == []
    clock.advance(1.5)

    (rescued,) = await rescue(store)

    assert (rescued.job.id, rescued.job.worker, rescued.job.deliveries) == (job.id, "w1", 1)
    assert (rescued.state, rescued.group_done) == (JobState.QUEUED, False)
    stored = await record(store, job.id)
    assert (stored.state, stored.worker) == (JobState.QUEUED, None)
    assert (stored.attempt, stored.losses, stored.deliveries) == (1, 1, 1)
    assert stored.run_at == START - timedelta(seconds=5)
    assert stored.failures == ()
    await join(store, "w2")
    again = await take_one(store, "w2")
    assert (again.id, again.attempt, again.losses, again.deliveries) == (job.id, 1, 1, 2)


async def test_the_jobs_of_a_worker_that_left_are_free_at_once(store: Store) -> None:
    job = await start(store)
    await store.deregister("w1")
    assert [one.job.id for one in await rescue(store)] == [job.id]


async def test_a_heartbeat_keeps_every_job(store: Store, clock: ManualClock) -> None:
    jobs = await held(store, "w1", 5)
    for _ in range(5):
        clock.advance(LEASE * 0.9)
        beat = await store.extend(worker_info("w1"), lease_seconds=LEASE, held=jobs)
        assert (beat.alive, beat.lost) == (True, ())
        assert await rescue(store) == []
    for job in jobs:
        await succeed(store, job)


async def test_a_deferral_takes_no_lease_and_burns_nothing(
    store: Store, clock: ManualClock
) -> None:
    """Cases B1: a job due long after any lease is not rescued while it waits."""
    job_id = await add(store, delay=3600)
    await join(store)
    for _ in range(5):
        clock.advance(600)
        assert await rescue(store) == []
    stored = await record(store, job_id)
    assert (stored.deliveries, stored.losses, stored.attempt) == (0, 0, 1)


async def test_too_many_losses_kill_the_job(store: Store, clock: ManualClock) -> None:
    job_id = await add(store)
    for losses in (1, 2, 3):
        await join(store)
        request = LeaseRequest(worker="w1", limit=1, tasks={TASK: 1}, suspects_only=losses == 3)
        assert await store.begin((await store.lease(request)).jobs) == {job_id}
        clock.advance(5)
        await store.deregister("w1")
        (rescued,) = await store.rescue(limit=10, max_deliveries=3, keep=60)
        assert rescued.state is (JobState.DEAD if losses == 3 else JobState.QUEUED)
        assert (await record(store, job_id)).losses == losses
    stored = await record(store, job_id)
    assert (stored.state, stored.reason) == (JobState.DEAD, DeadReason.WORKER_LOST)
    assert (stored.finished_at, stored.worker) == (clock.now(), None)
    assert stored.expires_at == clock.now() + timedelta(seconds=60)
    assert [each.kind for each in stored.failures] == ["worker_lost"]
    assert "the last, w1, ended" in stored.failures[0].message
    assert stored.attempt == 1
    await join(store)
    assert await take(store) == ()


async def test_the_first_loss_can_be_the_last(store: Store, clock: ManualClock) -> None:
    await start(store)
    clock.advance(31)
    (rescued,) = await rescue(store, max_deliveries=1)
    assert (rescued.state, rescued.group_done) == (JobState.DEAD, True)


async def test_a_worker_that_was_seen_to_end_is_not_said_to_be_out_of_touch(store: Store) -> None:
    job = await start(store)
    await store.deregister(job.worker)
    await rescue(store, max_deliveries=1)
    (failure,) = (await record(store, job.id)).failures
    assert failure.message.endswith(f"the last, {job.worker}, ended")


async def test_releases_are_no_losses(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    for _ in range(5):
        await end(store, job, Released())
        job = await take_one(store)
    clock.advance(31)
    (rescued,) = await rescue(store, max_deliveries=2)
    assert rescued.state is JobState.QUEUED
    assert (await record(store, job.id)).losses == 1


async def test_a_job_to_be_cancelled_ends_cancelled(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    await store.cancel([job.id])
    clock.advance(31)
    (rescued,) = await store.rescue(limit=10, max_deliveries=1, keep=60)
    assert rescued.state is JobState.CANCELLED
    stored = await record(store, job.id)
    assert (stored.state, stored.finished_at) == (JobState.CANCELLED, clock.now())
    assert stored.expires_at == clock.now() + timedelta(seconds=60)


async def test_the_limit_pages(store: Store, clock: ManualClock) -> None:
    jobs = await held(store, "w1", 15)
    clock.advance(31)
    pages = [await rescue(store, limit=4) for _ in range(5)]
    assert [len(page) for page in pages] == [4, 4, 4, 3, 0]
    got = [one.job.id for page in pages for one in page]
    assert sorted(got) == sorted(job.id for job in jobs)


async def test_a_page_of_healthy_jobs_hides_nobody(store: Store, clock: ManualClock) -> None:
    """Cases C1: more jobs of living workers than a page holds, and older than the lost ones."""
    healthy = await held(store, "a-healthy", 15)
    lost = await held(store, "m-lost", 5)
    more = await held(store, "z-healthy", 15)
    clock.advance(25)
    for worker, jobs in (("a-healthy", healthy), ("z-healthy", more)):
        await store.extend(worker_info(worker), lease_seconds=LEASE, held=jobs)
    clock.advance(10)
    got = await rescue(store, limit=10)
    assert sorted(one.job.id for one in got) == sorted(job.id for job in lost)
    assert await rescue(store, limit=10) == []


async def test_a_late_row_goes_with_its_last_job(store: Store, clock: ManualClock) -> None:
    await held(store, "w1", 3)
    await join(store, "idle")
    clock.advance(31)
    await join(store, "fresh")
    await rescue(store, limit=2)
    assert "w1" in await living(store)
    await rescue(store, limit=2)
    await rescue(store, limit=2)
    assert await living(store) == ["fresh"]


async def test_only_the_lost_worker_loses(store: Store, clock: ManualClock) -> None:
    lost = await held(store, "w1", 2)
    clock.advance(20)
    kept = await held(store, "w2", 2)
    clock.advance(15)
    assert {one.job.id for one in await rescue(store)} == {job.id for job in lost}
    for job in kept:
        await succeed(store, job)


async def test_rescuers_at_once_take_each_job_once(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    store = rivals[0]
    jobs = await held(store, "w1", 60)
    clock.advance(31)

    async def drain(mine: Store) -> list[str]:
        got: list[str] = []
        while True:
            page = await rescue(mine, limit=7)
            got += [one.job.id for one in page]
            if not page:
                return got

    shares = await asyncio.gather(*(drain(each) for each in rivals))
    await rescue(store)
    got = [job_id for share in shares for job_id in share]
    assert sorted(got) == sorted(job.id for job in jobs)
    assert {one.losses for one in await store.get(got)} == {1}


async def test_rescue_and_settle_at_once_leave_one_truth(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    store = rivals[0]
    for _ in range(10):
        job = await start(store)
        clock.advance(31)
        answer, _ = await asyncio.gather(settle(store, job, Succeeded()), rescue(rivals[1]))
        stored = await record(store, job.id)
        applied = answer.status is SettleStatus.APPLIED
        assert stored.state is (JobState.SUCCEEDED if applied else JobState.QUEUED)
        assert stored.losses == (0 if applied else 1)
        await store.cancel([job.id])


# -- seeing a death --------------------------------------------------------------------------------


async def test_without_presence_nobody_is_seen_dying(store: Store) -> None:
    if store.capabilities.presence:
        pytest.skip("this backend sees deaths")
    await join(store)
    assert await store.notice_deaths() == []


async def test_a_death_is_seen_before_the_lease_ends(
    store: Store, backend: Backend, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not store.capabilities.presence:
        pytest.skip("a worker's death cannot be seen early here")
    backend.trust_at_once(monkeypatch)
    doomed = backend.store(clock)
    await doomed.open()
    seen = await doomed.register(worker_info("doomed"), lease_seconds=600)
    assert seen
    await join(store, "living", lease=600)
    job_id = await add(store)
    await take_one(doomed, "doomed")
    assert await store.notice_deaths() == []

    await doomed.close()
    # a lock that the system frees with the process is proof; a connection is to be missing twice
    dead = [*await store.notice_deaths(), *await store.notice_deaths()]
    clock.advance(1.5)
    dead += await store.notice_deaths()
    assert dead == ["doomed"]
    assert await store.notice_deaths() == []
    assert [one.job.id for one in await rescue(store)] == [job_id]
    assert await living(store) == ["living"]
    # it was found dead: whoever lists the workers must not read that it left
    assert {one.info.id: one.left for one in await store.workers()}["doomed"] is False


async def test_what_a_dead_worker_held_beside_jobs_is_free_with_its_death(
    store: Store, backend: Backend, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not store.capabilities.presence:
        pytest.skip("a worker's death cannot be seen early here")
    backend.trust_at_once(monkeypatch)
    doomed = backend.store(clock)
    await doomed.open()
    assert await doomed.register(worker_info("doomed"), lease_seconds=600)
    await join(store, "living", lease=600)
    message = await put(store)
    for worker in ("doomed", "living"):
        assert await store.claim(f"of {worker}", holder_of(worker, "x"), ttl=600)
    await hand_one(doomed, holder=holder_of("doomed", "x"), lease_seconds=600)
    kept = await put(store)
    await hand_one(store, holder=holder_of("living", "x"), lease_seconds=600)
    await doomed.close()

    assert await hand(store) == ()
    seen = await store.notice_deaths()
    clock.advance(1.5)
    seen += await store.notice_deaths()
    assert seen == ["doomed"]
    assert await store.claim("of doomed", "other", ttl=60)
    assert not await store.claim("of living", "other", ttl=60)
    assert ids(await hand(store)) == [message] != [kept]


# -- a worker whose event loop is blocked ----------------------------------------------------------


async def test_a_lease_is_renewed_from_a_thread_while_the_loop_is_blocked(
    store: Store, clock: ManualClock
) -> None:
    await join(store, "w1", lease=30)
    job_id = await add(store)
    await take_one(store, "w1")
    clock.advance(29)
    # the loop itself waits: nothing of it may be needed for the answer
    with ThreadPoolExecutor(1) as pool:
        vouched = pool.submit(store.vouch, "w1", lease_seconds=30, report='{"problems":["x"]}')
        assert vouched.result(timeout=10) is True
    clock.advance(29)
    assert await rescue(store) == []
    (worker,) = await store.workers()
    assert (worker.late, worker.report) == (False, '{"problems":["x"]}')
    clock.advance(2)
    assert [one.job.id for one in await rescue(store)] == [job_id]


async def test_nobody_is_vouched_for_who_is_not_there(store: Store) -> None:
    await join(store, "w1", lease=30)
    await store.deregister("w1")
    for name in ("w1", "unknown"):
        assert await asyncio.to_thread(store.vouch, name, lease_seconds=30) is False
    assert await living(store) == []
