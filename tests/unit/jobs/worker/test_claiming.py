"""The jobs that are taken, when, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any

from offpath.model.job import JobState
from tests.unit.jobs.worker.rig import Rig, breathe


async def test_work_is_taken_when_it_is_announced(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    await rig.started()
    job = await rig.enqueue("quick")
    await breathe()
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_work_is_taken_when_it_is_due(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    await rig.started(poll_interval=1_000.0)
    job = await rig.enqueue("quick", delay=10.0)
    await rig.pass_time(9.9, step=3.3)
    assert await rig.state(job) is JobState.QUEUED
    await rig.pass_time(0.2, step=0.1)
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_polling_suffices(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    rig.memory.listen = lambda _callback: lambda: None  # type: ignore[method-assign, assignment]
    await rig.started(poll_interval=1.0)
    job = await rig.enqueue("quick")
    await breathe()
    assert await rig.state(job) is JobState.QUEUED
    await rig.pass_time(1)
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_idle_worker_asks_once_per_poll(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    await rig.started()
    rig.faulty.calls.clear()
    await rig.pass_time(100, step=0.5)
    assert rig.faulty.calls.count("lease") <= 130, "a poll each second, a look for suspects in five"
    assert "signals" not in rig.faulty.calls


async def test_saturated_task_hides_nothing_behind_it_and_is_not_fetched(rig: Rig) -> None:
    """D 10: 600 jobs of a task with one slot in front of one of another task."""
    gate = asyncio.Event()
    running = 0
    most = 0

    async def narrow() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    async def free() -> None:
        return None

    rig.task(narrow, concurrency=1)
    rig.task(free)
    jobs = [await rig.enqueue("narrow", priority=10) for _ in range(600)]
    other = await rig.enqueue("free")
    await rig.started()
    assert await rig.state(other) is JobState.SUCCEEDED
    assert sum(record.deliveries for record in await rig.memory.get(jobs)) == 1
    gate.set()
    await breathe(5_000)
    assert most == 1
    assert [await rig.state(job) for job in jobs] == [JobState.SUCCEEDED] * 600


async def test_no_more_than_concurrency_run_at_once(rig: Rig) -> None:
    running = 0
    most = 0

    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    rig.task(busy)
    for _ in range(50):
        await rig.enqueue("busy")
    counts = await rig.worker(concurrency=7).run_until_idle()
    assert (most, counts.succeeded) == (7, 50)


async def test_slots_are_filled_as_soon_as_they_are_free(rig: Rig) -> None:
    gates = {n: asyncio.Event() for n in range(4)}
    started: list[int] = []

    async def gated(n: int) -> None:
        started.append(n)
        await gates[n].wait()

    rig.task(gated)
    for n in range(4):
        await rig.enqueue("gated", f'{{"n":{n}}}')
    await rig.started(concurrency=2)
    assert started == [0, 1]
    gates[1].set()
    await breathe()
    assert started == [0, 1, 2]


async def test_higher_priority_runs_first(rig: Rig) -> None:
    order: list[int] = []

    async def note(n: int) -> None:
        order.append(n)

    rig.task(note)
    for n in (1, 3, 2):
        await rig.enqueue("note", f'{{"n":{n}}}', priority=n)
    await rig.run(concurrency=1)
    assert order == [3, 2, 1]


async def test_only_the_own_queues_and_tasks_are_served(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    mine = await rig.enqueue("quick", queue="mine")
    others = await rig.enqueue("quick", queue="others")
    unknown = await rig.enqueue("unknown", queue="mine")
    await rig.run(queues=("mine",))
    states = [await rig.state(job) for job in (mine, others, unknown)]
    assert states == [JobState.SUCCEEDED, JobState.QUEUED, JobState.QUEUED]


async def test_ends_that_pile_up_hold_back_the_claims(rig: Rig) -> None:
    """Results wait in memory while the store takes none; their number is bounded."""

    async def quick() -> None:
        return None

    rig.task(quick)
    for _ in range(1_500):
        await rig.enqueue("quick")
    gate = rig.faulty.doors["settle"] = asyncio.Event()
    worker = await rig.started()
    await breathe(500)
    assert len(worker.active()) == 1_000
    gate.set()
    await breathe(500)
    assert worker.counts.succeeded == 1_500


async def test_two_deliveries_of_one_job_in_one_worker_are_kept_apart(rig: Rig) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    lost: list[bool] = []

    async def slow(ctx: Any) -> int:
        try:
            await gates[ctx.deliveries - 1].wait()
        except asyncio.CancelledError:
            lost.append(ctx.lease_lost.is_set())
            raise
        return ctx.deliveries  # type: ignore[no-any-return]

    rig.task(slow)
    job = await rig.enqueue("slow")
    worker = await rig.started()
    await rig.memory.deregister(worker.id)
    await rig.memory.rescue(limit=10, max_deliveries=3)
    await rig.memory.register(worker._engine.info, lease_seconds=30)
    await rig.enqueue("slow", delay=1_000.0)
    worker._engine.claimer.announce()
    await breathe()
    assert lost == [True]
    gates[1].set()
    await breathe()
    assert (await rig.record(job)).result == "2"
    assert worker.active() == []


async def test_run_until_idle_follows_what_jobs_lead_to_and_counts(rig: Rig) -> None:
    async def root(ctx: Any) -> None:
        ctx.enqueue([rig.job("leaf"), rig.job("leaf")])

    async def leaf() -> None:
        raise ValueError

    rig.task(root)
    rig.task(leaf)
    await rig.enqueue("root")
    counts = await rig.worker().run_until_idle()
    assert (counts.succeeded, counts.retried, counts.total) == (1, 2, 3)
