"""Batch tasks: what ends one job of a call leaves the others alone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import offpath
from offpath import Context, JobState
from offpath.model.settlement import Released, Settlement
from tests.unit.jobs.batches.bench import Bench, doubled
from tests.unit.jobs.worker.rig import breathe, until


async def test_a_cancelled_job_ends_and_its_call_goes_on(bench: Bench) -> None:
    held = bench.held(size=2)
    first, second = await held.enqueue(1), await held.enqueue(2)
    async with bench.app.worker():
        await breathe(100)
        assert await first.cancel()
        await bench.pass_time(12)  # longer than an ignored cancellation is put up with
        assert bench.errors == []
        bench.door.set()
        await breathe(100)
        assert await bench.state(first) is JobState.CANCELLED
        assert await second.result() == 4


async def test_a_call_that_nobody_wants_any_more_is_cancelled(bench: Bench) -> None:
    held = bench.held(size=2)
    handles = [await held.enqueue(number) for number in (1, 2)]
    async with bench.app.worker() as worker:
        await breathe(100)
        for handle in handles:
            await handle.cancel()
        await bench.pass_time(2)
        assert {await bench.state(handle) for handle in handles} == {JobState.CANCELLED}
        assert worker.active() == []


async def test_a_job_that_is_cancelled_while_it_waits_for_others_never_runs(bench: Bench) -> None:
    double = bench.doubling(size=3)
    first, second = await double.enqueue(1), await double.enqueue(2)
    async with bench.app.worker():
        await breathe(100)
        await first.cancel()
        await bench.pass_time(2)
        assert await bench.state(first) is JobState.CANCELLED
        assert await second.result() == 4
        assert bench.calls == [[2]]


async def test_the_timeout_of_one_job_does_not_end_the_call(bench: Bench) -> None:
    held = bench.held(size=2)
    short = await held.options(timeout=5, retry=1).enqueue(1)
    other = await held.enqueue(2)
    async with bench.app.worker():
        await bench.pass_time(6)
        bench.door.set()
        await breathe(100)
        assert await other.result() == 4
        failure = (await short.status()).failure
        assert failure is not None
        assert failure.kind == "timeout"
        assert await bench.state(short) is JobState.DEAD


async def test_the_timeout_of_all_ends_the_call(bench: Bench) -> None:
    held = bench.held(size=2, timeout=5, retry=1)
    handles = [await held.enqueue(number) for number in (1, 2)]
    async with bench.app.worker():
        await bench.pass_time(6)
        assert {await bench.state(handle) for handle in handles} == {JobState.DEAD}


async def test_a_job_past_its_deadline_is_left_out(bench: Bench) -> None:
    double = bench.doubling(size=3, max_wait=10.0)
    late, good = await double.options(deadline=5).enqueue(1), await double.enqueue(2)
    async with bench.app.worker():
        await bench.pass_time(11)
        assert (await late.status()).reason == "deadline"
        assert await good.result() == 4
        assert bench.calls == [[2]]


async def test_leases_are_kept_while_jobs_wait_for_others(bench: Bench) -> None:
    double = bench.doubling(size=2)
    first = await double.enqueue(1)
    async with bench.app.worker(lease_seconds=3):
        await bench.pass_time(10)
        assert await bench.state(first) is JobState.RUNNING
        second = await double.enqueue(2)
        await breathe(100)
        assert [await first.result(), await second.result()] == [2, 4]
        assert (await first.status()).deliveries == 1


async def test_the_end_of_a_job_that_is_somebody_elses_is_dropped(bench: Bench) -> None:
    held = bench.held(size=2)
    first, second = await held.enqueue(1), await held.enqueue(2)
    worker = bench.app.worker()
    await worker.start()
    await breathe(100)
    store = bench.app.store()
    (lost,) = [job for job in await store.held(worker.id) if job.id == first.id]
    await store.settle([Settlement(job=lost, outcome=Released())])
    await bench.pass_time(2)
    bench.door.set()
    await breathe(100)
    assert await second.result() == 4
    assert worker.counts.lease_lost == 1
    await worker.stop()
    assert bench.calls == [[1, 2], [1]]
    assert await first.result() == 2


async def test_an_aborting_stop_gives_every_job_back(bench: Bench) -> None:
    held, double = bench.held(size=2), bench.doubling(size=9)
    handles = [await held.enqueue(number) for number in (1, 2)]
    handles.append(await double.enqueue(3))
    worker = bench.app.worker()
    await worker.start()
    await breathe(100)
    stop = asyncio.ensure_future(worker.stop(drain=False))
    while not stop.done():
        bench.clock.advance(0.1)
        await breathe()
    assert {await bench.state(handle) for handle in handles[:2]} == {JobState.QUEUED}
    assert {(await handle.status()).attempt for handle in handles} == {1}


async def test_a_handler_that_ignores_the_end_of_a_stop_is_given_up(bench: Bench) -> None:
    begun, door = threading.Event(), threading.Event()

    @bench.app.batch_task(size=2)
    def stubborn(numbers: list[int]) -> list[int]:
        begun.set()
        door.wait(10)
        return numbers

    handles = [await stubborn.enqueue(number) for number in (1, 2)]
    worker = bench.app.worker()
    await worker.start()
    await until(begun.is_set)
    stop = asyncio.ensure_future(worker.stop(drain=False))
    while not stop.done():
        bench.clock.advance(0.1)
        await breathe()
    door.set()
    assert (await stop).given_up == 2
    assert {await bench.state(handle) for handle in handles} == {JobState.QUEUED}


async def test_a_group_counts_each_job_of_a_call(bench: Bench) -> None:
    double = bench.doubling(size=10)

    @bench.app.task
    async def split(ctx: Context) -> offpath.Plan[Any, Any]:
        return ctx.queue(*(double.job(number) for number in range(10)))

    handle = await split.enqueue()
    await bench.idle()
    assert [len(call) for call in bench.calls] == [10]
    assert await handle in set(doubled(list(range(10))))
