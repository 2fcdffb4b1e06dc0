"""Edge cases A.28, by number: order, queues, redrive, storage, metrics."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from offpath import App, Context, JobState, Snooze
from offpath.model.effects import Effects
from offpath.model.job import DeadReason, NewJob
from offpath.retries import RetryPolicy
from tests.unit.edge_cases.bench import Bench


async def test_a28_076_priority_decides_who_is_next(bench: Bench) -> None:
    order: list[str] = []
    running, go_on = asyncio.Event(), asyncio.Event()

    @bench.app.task
    async def work(name: str) -> None:
        order.append(name)
        if name == "A":
            running.set()
            await go_on.wait()

    first = await work.options(priority=1).enqueue("A")
    worker = bench.app.worker(concurrency=1)
    run = asyncio.ensure_future(worker.run_until_idle())
    await running.wait()
    await work.options(priority=3).enqueue("C")
    await work.options(priority=5).enqueue("B")
    go_on.set()
    await run
    assert order == ["A", "B", "C"]
    assert (await first.status()).state is JobState.SUCCEEDED


async def test_a28_077_equal_priority_runs_in_the_order_of_due_times(bench: Bench) -> None:
    order: list[str] = []

    @bench.app.task
    async def work(name: str) -> None:
        order.append(name)

    now = bench.clock.now()
    await work.options(run_at=now).enqueue("younger")
    await work.options(run_at=now - timedelta(seconds=1)).enqueue("older")
    await bench.app.worker(concurrency=1).run_until_idle()
    assert order == ["older", "younger"]


async def test_a28_088_two_queues_are_both_served(bench: Bench) -> None:
    @bench.app.task(queue="left")
    async def left() -> str:
        return "left"

    @bench.app.task(queue="right")
    async def right() -> str:
        return "right"

    handles = (await left.enqueue(), await right.enqueue())
    await bench.run()
    assert [await handle.result() for handle in handles] == ["left", "right"]


async def test_a28_089_an_unknown_task_costs_its_job_nothing(bench: Bench) -> None:
    stranger = bench.app.by_name("stranger", registered=False).options(queue="other", retry=1)
    handle = await stranger.enqueue()
    for _ in range(20):
        await bench.run_after(1)
    record = await handle.status()
    assert (record.state, record.attempt, record.deliveries) == (JobState.QUEUED, 1, 0)
    assert [(each.task, each.queue) for each in await bench.app.backlog()] == [
        ("stranger", "other")
    ]


async def test_a28_155_redriven_letters_start_as_fresh(bench: Bench) -> None:
    healthy = False
    seen: list[int] = []

    @bench.app.task(retry=RetryPolicy(attempts=5, base=0.0))
    async def work(ctx: Context) -> str:
        seen.append(ctx.attempt)
        if not healthy:
            raise ValueError
        return "done"

    handles = [await work.enqueue(), await work.enqueue()]
    await bench.run()
    assert [(await handle.status()).attempt for handle in handles] == [5, 5]
    healthy = True
    seen.clear()
    assert len(await bench.app.dead.redrive(task=work)) == 2
    await bench.run()
    assert (seen, [await handle.result() for handle in handles]) == ([1, 1], ["done", "done"])
    assert (await bench.app.dead.list()).items == ()


async def test_a28_157_no_more_than_asked_for(bench: Bench) -> None:
    @bench.app.task(retry=1)
    async def failing() -> None:
        raise ValueError

    for _ in range(5):
        await failing.enqueue()
    await bench.run()
    assert len(await bench.app.dead.redrive(task=failing, limit=3)) == 3
    assert await bench.app.jobs.count(state="dead") == 2


async def test_a28_159_nothing_is_redriven_unasked(bench: Bench) -> None:
    @bench.app.task(retry=1)
    async def failing() -> None:
        raise ValueError

    handle = await failing.enqueue()
    for _ in range(5):
        await bench.run_after(3_600)
    record = await handle.status()
    assert (record.state, record.redrives) == (JobState.DEAD, 0)


def _raw(bench: Bench, task: str, text: str) -> NewJob:
    return NewJob(id=bench.app.new_id(), task=task, input=text, fingerprint=text)


@pytest.mark.parametrize("text", ["not json", '{"n":"word"}', "[]", ""], ids=repr)
async def test_a28_160_an_unreadable_body_is_a_dead_letter(bench: Bench, text: str) -> None:
    @bench.app.task
    async def typed(n: int) -> int:
        raise AssertionError("it ran")

    await bench.app.open()
    job = _raw(bench, typed.name, text)
    await bench.app.store().commit(Effects(jobs=(job,)))
    await bench.run()
    record = await bench.app.dead.show(job.id)
    assert (record.reason, record.input) == (DeadReason.BAD_INPUT, text)


async def test_a28_169_a_failure_leaves_no_slot_taken(bench: Bench) -> None:
    failed = asyncio.Event()

    @bench.app.task(retry=1)
    async def failing() -> None:
        failed.set()
        raise ValueError

    await failing.enqueue()
    worker = bench.app.worker()
    await worker.start()
    await failed.wait()
    await worker.stop()
    assert worker.active() == []


async def test_a28_180_two_services_share_a_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    async with App(url) as here, App(url) as there:

        @here.task
        async def ours() -> str:
            return "ours"

        @there.task
        async def theirs() -> str:
            return "theirs"

        foreign = here.by_name("theirs", registered=False)
        waiting = await foreign.enqueue()
        own = await ours.enqueue()
        async with here.worker(), there.worker():
            assert await own.result(timeout=20) == "ours"
            assert await waiting.result(timeout=20) == "theirs"


async def test_a28_181_a_leased_job_still_counts(bench: Bench) -> None:
    counted: list[dict[JobState, int]] = []

    @bench.app.task
    async def count() -> None:
        counted.append({each.state: each.count for each in await bench.app.jobs.counts()})

    await count.enqueue()
    await count.options(delay=60).enqueue()
    await bench.run()
    assert counted == [{JobState.RUNNING: 1, JobState.QUEUED: 1}]


async def test_a28_191_a_file_keeps_jobs_and_dead_letters(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    first = App(url)

    @first.task(retry=1)
    async def failing() -> None:
        raise ValueError("kept")

    async with first:
        dead = await failing.enqueue()
        await first.worker().run_until_idle()
        waiting = [await failing.options(delay=60).enqueue() for _ in range(2)]
    async with App(url) as second:
        (letter,) = (await second.dead.list()).items
        assert letter.failure is not None
        assert (letter.id, letter.failure.message) == (dead.id, "kept")
        page = await second.jobs.find(state="queued", newest=False)
        assert [record.id for record in page.items] == [handle.id for handle in waiting]


async def test_a28_200_the_counts_of_each_course(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task
    async def fine() -> None:
        return None

    @bench.app.task(retry=RetryPolicy(attempts=2, base=0.0))
    async def second() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError

    @bench.app.task
    async def later(ctx: Context) -> None:
        if ctx.deliveries == 1:
            raise Snooze(10)

    for task in (fine, second, later):
        await task.enqueue()
    await bench.run()
    names = ("queued", "started", "succeeded", "failed", "retried", "snoozed")

    def counts(task: str) -> list[float]:
        return [bench.reading(f"offpath_jobs_{name}_total", task) for name in names]

    assert counts("fine") == [1, 1, 1, 0, 0, 0]
    assert counts("second") == [1, 2, 1, 1, 1, 0]
    assert counts("later") == [1, 1, 0, 0, 0, 1]
    assert bench.reading("offpath_jobs_active", "fine") == 0
