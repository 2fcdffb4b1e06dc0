"""The jobs that a lease hands out, to whom, and in which order."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from offpath.model.job import JobState, LeasedJob
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    ask,
    enqueue,
    exists,
    join,
    new_job,
    record,
    succeed,
    take,
    take_one,
)

A, B = "task.a", "task.b"


async def test_priority_then_run_time_then_id_over_the_whole_backlog(store: Store) -> None:
    await join(store)
    jobs = [
        new_job(
            task=(A, B)[n % 2],
            queue=f"q{n % 3}",
            priority=(n * 7) % 5 - 2,
            run_at=START - timedelta(seconds=(n * 11) % 6),
        )
        for n in range(60)
    ]
    await enqueue(store, *jobs)

    got: list[LeasedJob] = []
    while batch := await take(store, limit=7, tasks={A: 7, B: 7}):
        got += batch

    right = sorted(jobs, key=lambda job: (-job.priority, job.run_at or START, job.id))
    assert [job.id for job in got] == [job.id for job in right]


async def test_a_leased_job_carries_everything_it_was_made_of(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    job = new_job(
        input='{"to":"ann"}',
        queue="fast",
        priority=3,
        options='{"timeout":5}',
        parent=new_job().id,
        dependents=(new_job().id, new_job().id),
        deadline=START + timedelta(hours=1),
    )
    await enqueue(store, job)
    clock.advance(2)

    leased = await take_one(store)

    assert leased == LeasedJob(
        id=job.id,
        task=TASK,
        queue="fast",
        input='{"to":"ann"}',
        worker="w1",
        deliveries=1,
        attempt=1,
        options='{"timeout":5}',
        group_id=job.id,
        priority=3,
        run_at=START,
        enqueued_at=START,
        losses=0,
        parent=job.parent,
        dependents=job.dependents,
        deadline=START + timedelta(hours=1),
    )


async def test_a_job_handed_out_is_running_and_nobody_else_gets_it(
    store: Store, clock: ManualClock
) -> None:
    await join(store, "w1", "w2")
    job_id = await add(store)
    clock.advance(1)

    assert [job.id for job in await take(store, "w1")] == [job_id]

    assert await take(store, "w1") == ()
    assert await take(store, "w2") == ()
    held = await record(store, job_id)
    assert (held.state, held.worker, held.deliveries) == (JobState.RUNNING, "w1", 1)
    assert held.started_at == START + timedelta(seconds=1)


async def test_the_answer_has_the_stores_time(store: Store, clock: ManualClock) -> None:
    await join(store)
    clock.advance(1.25)
    assert (await ask(store)).now == START + timedelta(seconds=1.25)


async def test_never_more_than_the_limit(store: Store) -> None:
    await join(store)
    await enqueue(store, *(new_job() for _ in range(5)))
    assert len(await take(store, limit=2, tasks={TASK: 100})) == 2
    assert len(await take(store, limit=100, tasks={TASK: 2})) == 2
    assert len(await take(store, limit=2)) == 1


async def test_room_per_task_is_exact_over_all_queues(store: Store) -> None:
    await join(store)
    jobs = [new_job(task, queue=queue) for queue in "xyz" for task in (A, B) for _ in range(4)]
    await enqueue(store, *jobs)

    got = await take(store, limit=10, tasks={A: 5, B: 3})

    assert Counter(job.task for job in got) == {A: 5, B: 3}
    assert [job.id for job in got] == sorted(job.id for job in got)


@pytest.mark.parametrize("room", [{B: 3}, {A: 0, B: 3}], ids=["absent", "full"])
async def test_a_task_without_room_is_not_fetched_and_blocks_nobody(
    store: Store, room: dict[str, int]
) -> None:
    await join(store)
    await enqueue(store, *(new_job(A, priority=9) for _ in range(300)))
    wanted = [await add(store, B) for _ in range(3)]

    got = await take(store, limit=3, tasks=room)

    assert [job.id for job in got] == wanted
    assert await take(store, limit=3, tasks=room) == ()
    assert len(await take(store, limit=300, tasks={A: 300})) == 300


async def test_nothing_is_handed_out_without_tasks(store: Store) -> None:
    await join(store)
    await add(store)
    assert await take(store, tasks={}) == ()


async def test_only_the_queues_asked_for(store: Store) -> None:
    await join(store)
    jobs = {queue: await add(store, queue=queue) for queue in ("a", "b", "c")}
    assert [job.id for job in await take(store, queues=("b",))] == [jobs["b"]]
    assert await take(store, queues=("b", "nobody")) == ()
    assert {job.id for job in await take(store)} == {jobs["a"], jobs["c"]}


async def test_a_job_of_the_future_waits_for_its_time(store: Store, clock: ManualClock) -> None:
    await join(store)
    job_id = await add(store, delay=10)

    early = await ask(store)
    clock.advance(9.5)
    almost = await ask(store)
    clock.advance(0.5)
    due = await ask(store)

    assert (early.jobs, early.more) == ((), False)
    assert early.due_in == pytest.approx(10)
    assert almost.jobs == ()
    assert almost.due_in == pytest.approx(0.5)
    assert [job.id for job in due.jobs] == [job_id]
    assert due.jobs[0].run_at == START + timedelta(seconds=10)
    assert due.due_in is None


async def test_due_in_counts_only_what_is_asked_for(store: Store) -> None:
    await join(store)
    await add(store, A, delay=5)
    await add(store, B, delay=7, queue="slow")
    await add(store, B, delay=9)
    assert (await ask(store, tasks={A: 1, B: 1})).due_in == pytest.approx(5)
    assert (await ask(store, tasks={B: 1})).due_in == pytest.approx(7)
    assert (await ask(store, tasks={B: 1}, queues=("default",))).due_in == pytest.approx(9)
    assert (await ask(store, tasks={"task.c": 1})).due_in is None


async def test_a_promoted_job_takes_its_place_by_priority(store: Store, clock: ManualClock) -> None:
    await join(store)
    low = await add(store)
    high = await add(store, priority=5, delay=1)
    clock.advance(1)
    assert [job.id for job in await take(store)] == [high, low]


async def test_a_flood_of_due_jobs_comes_out_whole(store: Store, clock: ManualClock) -> None:
    await join(store)
    await enqueue(store, *(new_job(delay=1 + n % 3) for n in range(1_500)))
    clock.advance(3)

    got: set[str] = set()
    while True:
        answer = await ask(store, limit=400)
        got |= {job.id for job in answer.jobs}
        if not answer.jobs and not answer.more:
            break

    assert len(got) == 1_500


async def test_more_tells_whether_asking_again_may_help(store: Store) -> None:
    await join(store)
    assert not (await ask(store)).more
    await enqueue(store, *(new_job() for _ in range(5)))
    assert (await ask(store, limit=2)).more
    assert len(await take(store)) == 3
    assert not (await ask(store)).more


async def test_an_unregistered_worker_gets_nothing(store: Store) -> None:
    job_id = await add(store)
    assert await take(store, "stranger") == ()
    assert (await record(store, job_id)).deliveries == 0

    await join(store)
    await store.deregister("w1")
    assert await take(store) == ()

    await join(store)
    assert [job.id for job in await take(store)] == [job_id]


async def test_a_worker_whose_lease_has_expired_gets_nothing(
    store: Store, clock: ManualClock
) -> None:
    """A job that it got would be taken from it by the next rescue."""
    await join(store)
    job_id = await add(store)
    clock.advance(31)
    assert await take(store) == ()
    await join(store)
    assert [job.id for job in await take(store)] == [job_id]


async def test_a_cancelled_or_deleted_job_is_not_handed_out(store: Store) -> None:
    await join(store)
    cancelled, deleted, kept = [await add(store) for _ in range(3)]
    await store.cancel([cancelled, deleted])
    await store.delete([deleted])
    assert [job.id for job in await take(store)] == [kept]
    assert not await exists(store, deleted)


async def test_a_passed_deadline_does_not_hide_a_job(store: Store, clock: ManualClock) -> None:
    """The worker judges the deadline: were the job never handed out, it would never end."""
    job_id = await add(store, deadline_in=5)
    clock.advance(60)
    await join(store)
    (leased,) = await take(store)
    assert leased.id == job_id
    assert leased.deadline == START + timedelta(seconds=5)


async def test_a_rescued_job_keeps_its_place_before_fresh_ones(
    store: Store, clock: ManualClock
) -> None:
    await join(store, "w1")
    old = await add(store, priority=10)
    await take_one(store)
    clock.advance(31)
    await join(store, "w2")
    await enqueue(store, *(new_job(priority=9) for _ in range(5)))
    await store.rescue(limit=10, max_deliveries=3)
    assert (await take_one(store, "w2")).id == old


async def test_finished_jobs_are_not_in_the_way(store: Store) -> None:
    await join(store)
    first = await add(store)
    await succeed(store, await take_one(store))
    second = await add(store)
    assert [job.id for job in await take(store)] == [second]
    assert (await record(store, first)).state is JobState.SUCCEEDED


async def test_eight_lessees_never_share_a_job(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    workers = [f"w{n}" for n in range(8)]
    await join(store, *workers)
    jobs = [new_job((A, B)[n % 2], priority=n % 3) for n in range(240)]
    await enqueue(store, *jobs)

    async def drain(worker: str, mine: Store) -> list[LeasedJob]:
        got: list[LeasedJob] = []
        while True:
            answer = await ask(mine, worker, limit=7, tasks={A: 4, B: 4})
            assert Counter(job.task for job in answer.jobs) <= Counter({A: 4, B: 4})
            got += answer.jobs
            if not answer.jobs and not answer.more:
                return got

    shares = await asyncio.gather(
        *(drain(worker, rivals[n % 4]) for n, worker in enumerate(workers))
    )

    got = [job for share in shares for job in share]
    assert sorted(job.id for job in got) == sorted(job.id for job in jobs)
    assert all(job.deliveries == 1 for job in got)
    holders = {job.id: job.worker for job in await store.get([job.id for job in jobs])}
    assert holders == {job.id: job.worker for job in got}


async def test_lessees_that_want_the_same_one_job(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    await join(store, *(f"w{n}" for n in range(8)))
    for _ in range(5):
        job_id = await add(store)
        answers = await asyncio.gather(*(take(rivals[n % 4], f"w{n}", limit=1) for n in range(8)))
        assert [job.id for answer in answers for job in answer] == [job_id]
