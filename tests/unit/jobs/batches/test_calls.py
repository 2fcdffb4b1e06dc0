"""Batch tasks: jobs that are enqueued one by one, and run together."""

from __future__ import annotations

import threading

import pytest

from offpath import JobState
from offpath.errors import InvalidInput
from tests.unit.jobs.batches.bench import LONG, Bench
from tests.unit.jobs.worker.rig import breathe


async def test_a28_063_outputs_are_each_jobs_own(bench: Bench) -> None:
    double = bench.doubling(size=3)
    handles = [await double.enqueue(number) for number in range(7)]
    counts = await bench.idle()
    assert [await handle.result() for handle in handles] == [0, 2, 4, 6, 8, 10, 12]
    assert sorted(len(call) for call in bench.calls) == [1, 3, 3]
    assert counts.succeeded == 7


async def test_a28_064_a_call_begins_max_wait_after_its_first_job(bench: Bench) -> None:
    double = bench.doubling(size=100, max_wait=5.0)
    async with bench.app.worker():
        first = await double.enqueue(1)
        await bench.pass_time(4)
        second = await double.enqueue(2)
        await bench.pass_time(0.75)
        assert bench.calls == []
        await bench.pass_time(0.5)
        assert bench.calls == [[1, 2]]
        assert [await first.result(), await second.result()] == [2, 4]


async def test_a_full_call_does_not_wait(bench: Bench) -> None:
    double = bench.doubling(size=2)
    async with bench.app.worker():
        handles = [await double.enqueue(number) for number in (1, 2)]
        await breathe()
        assert [await handle.result() for handle in handles] == [2, 4]


async def test_a_sync_handler_runs_in_a_thread(bench: Bench) -> None:
    seen: list[bool] = []

    @bench.app.batch_task(size=2, max_wait=LONG)
    def shout(words: list[str]) -> list[str]:
        seen.append(threading.current_thread() is threading.main_thread())
        return [word.upper() for word in words]

    handles = [await shout.enqueue(word) for word in ("a", "b")]
    await bench.idle()
    assert [await handle.result() for handle in handles] == ["A", "B"]
    assert seen == [False]


async def test_run_until_idle_waits_for_nobody(bench: Bench) -> None:
    double = bench.doubling(size=100)
    handle = await double.enqueue(21)
    await bench.idle(concurrency=1)
    assert await handle.result() == 42


async def test_a_stop_runs_what_was_collected(bench: Bench) -> None:
    double = bench.doubling(size=100)
    worker = bench.app.worker()
    await worker.start()
    handle = await double.enqueue(21)
    await breathe()
    assert bench.calls == []
    await worker.stop()
    assert bench.calls == [[21]]
    assert await handle.result() == 42


async def test_a_job_may_be_enqueued_by_name_and_with_options(bench: Bench) -> None:
    bench.doubling()
    handle = await bench.app.enqueue_by_name("double", item=4)
    other = await bench.app.tasks["double"].options(priority=5).enqueue(5)
    await bench.idle()
    assert (await handle.result(), await other.result()) == (8, 10)
    assert bench.calls == [[5, 4]]


async def test_the_input_of_each_job_is_checked(bench: Bench) -> None:
    double = bench.doubling()
    with pytest.raises(InvalidInput, match="item"):
        await double.enqueue("no number")
    with pytest.raises(InvalidInput):
        await double.enqueue([1, 2])


# -- slots ------


async def test_a_call_takes_one_slot(bench: Bench) -> None:
    held = bench.held(size=50)
    handles = [await held.enqueue(number) for number in range(100)]
    async with bench.app.worker(concurrency=2) as worker:
        await breathe(100)
        assert [len(call) for call in bench.calls] == [50, 50]
        assert worker.report().running == {"held": 2}
        assert len(worker.active()) == 100
        bench.door.set()
        await breathe(100)
        assert {await bench.state(handle) for handle in handles} == {JobState.SUCCEEDED}


async def test_one_slot_fills_a_whole_call_in_two_questions(bench: Bench) -> None:
    double = bench.doubling(size=50)
    for number in range(50):
        await double.enqueue(number)
    async with bench.app.worker(concurrency=1):
        await breathe(100)
        assert [len(call) for call in bench.calls] == [50]


async def test_concurrency_is_of_calls(bench: Bench) -> None:
    held = bench.held(size=2, concurrency=1)
    for number in range(6):
        await held.enqueue(number)
    async with bench.app.worker():
        await breathe(100)
        assert len(bench.calls) == 1
        bench.door.set()
        await breathe(200)
        assert [len(call) for call in bench.calls] == [2, 2, 2]


async def test_a_batch_task_at_its_limit_hides_nothing_behind_it(bench: Bench) -> None:
    held = bench.held(size=2, concurrency=1)

    @bench.app.task
    async def other() -> int:
        return 1

    for number in range(200):
        await held.options(priority=9).enqueue(number)
    handle = await other.enqueue()
    async with bench.app.worker(concurrency=4):
        await breathe(100)
        assert await bench.state(handle) is JobState.SUCCEEDED
        bench.door.set()
        await breathe(1_000)


async def test_a_slot_is_free_again_after_each_call(bench: Bench) -> None:
    double = bench.doubling(size=7)
    handles = [await double.enqueue(number) for number in range(500)]
    counts = await bench.idle(concurrency=3)
    assert counts.succeeded == 500
    assert [await handle.result() for handle in handles[-2:]] == [996, 998]
    assert max(len(call) for call in bench.calls) == 7
