"""The edge cases B.6, by number; ``docs/edge-cases.md`` has the table."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from offpath import Backoff, Context, JobNotFound, JobRecord, JobState
from offpath.errors import InvalidInput
from offpath.model import retry
from offpath.model.job import DeadReason
from offpath.retries import RetryPolicy
from tests.unit.edge_cases.bench import Bench


async def test_b6_01_a_fresh_job_has_an_id_and_waits(bench: Bench) -> None:
    @bench.app.task
    async def echo(text: str) -> str:
        return text

    handle = await echo.enqueue("hello")
    record = await handle.status()
    assert str(uuid.UUID(handle.id)) == handle.id
    assert (record.state, record.attempt, record.deliveries) == (JobState.QUEUED, 1, 0)


async def test_b6_02_the_oldest_is_first(bench: Bench) -> None:
    seen: list[tuple[int, JobState, int]] = []

    @bench.app.task
    async def note(ctx: Context, n: int) -> None:
        record = await bench.record(ctx.id)
        assert record.started_at is not None
        seen.append((n, record.state, ctx.attempt))

    await note.enqueue(1)
    bench.clock.advance(0.005)
    await note.enqueue(2)
    await bench.app.worker(concurrency=1).run_until_idle()
    assert seen == [(1, JobState.RUNNING, 1), (2, JobState.RUNNING, 1)]


async def test_b6_03_nothing_to_do_is_fine(bench: Bench) -> None:
    counts = await bench.run()
    assert counts.succeeded == 0
    assert bench.errors == []


async def test_b6_04_success_has_result_and_end(bench: Bench) -> None:
    @bench.app.task
    async def pair() -> dict[str, list[int]]:
        return {"pair": [1, 2]}

    handle = await pair.enqueue()
    await bench.run()
    record = await handle.status()
    assert (record.state, record.finished_at) == (JobState.SUCCEEDED, bench.clock.now())
    assert await handle.result() == {"pair": [1, 2]}


async def _failing(bench: Bench, **options: Any) -> JobRecord:
    """The record of a job that has failed once."""

    @bench.app.task(retry=RetryPolicy(attempts=2, base=30.0, jitter=0.0))
    async def failing() -> str:
        raise ValueError("the reason")

    handle = await failing.options(**options).enqueue()
    await bench.run()
    return await handle.status()


async def test_b6_05_failure_without_retry_keeps_the_error(bench: Bench) -> None:
    record = await _failing(bench, retry=1)
    assert (record.state, record.finished_at) == (JobState.DEAD, bench.clock.now())
    assert record.failure is not None
    assert record.failure.message == "the reason"


async def test_b6_06_failure_with_retry_waits_and_can_run_again(bench: Bench) -> None:
    record = await _failing(bench)
    assert (record.state, record.attempt) == (JobState.QUEUED, 2)
    assert record.failure is not None
    assert record.failure.message == "the reason"
    assert record.finished_at is None, "a job that waits has not ended"
    await bench.run_after(30)
    assert (await bench.record(record.id)).state is JobState.DEAD


async def test_b6_07_a_cancelled_job_never_runs(bench: Bench) -> None:
    @bench.app.task
    async def never() -> None:
        raise AssertionError("it ran")

    handle = await never.enqueue()
    assert await handle.cancel() is True
    await bench.run()
    record = await handle.status()
    assert (record.state, record.deliveries) == (JobState.CANCELLED, 0)


async def test_b6_08_an_unknown_job_is_a_definite_answer(bench: Bench) -> None:
    unknown = bench.app.new_id()
    with pytest.raises(JobNotFound):
        await bench.app.jobs.get(unknown)
    assert await bench.app.jobs.cancel(unknown) == []
    assert await bench.app.jobs.redrive(unknown) == []
    assert await bench.app.jobs.delete(unknown) == []


async def test_b6_09_cancelling_what_has_ended_changes_nothing(bench: Bench) -> None:
    @bench.app.task
    async def one() -> int:
        return 1

    handle = await one.enqueue()
    await bench.run()
    before = await handle.status()
    assert await handle.cancel() is False
    assert await handle.status() == before


def test_b6_10_the_defaults_and_the_steps_of_half_jitter() -> None:
    assert RetryPolicy().attempts == 3
    policy, _ = retry.merged_retry((Backoff.half_jitter(),))
    waits = [
        retry.delay(policy, attempt, chance) for attempt in range(1, 31) for chance in (0.0, 0.999)
    ]
    assert all(0 < wait <= 60 for wait in waits)
    assert waits[0] == 0.5
    assert waits[-2] == 30.0


async def test_b6_11_a_backoff_function_decides(bench: Bench) -> None:
    @bench.app.task(retry=Backoff.custom(lambda failures: failures * 1.0, attempts=5))
    async def failing() -> None:
        raise ValueError

    handle = await failing.enqueue()
    for failures in (1, 2, 3):
        await bench.run()
        due = (await handle.status()).run_at
        assert (due - bench.clock.now()).total_seconds() == failures
        bench.clock.set(due)


async def test_b6_12_end_to_end(bench: Bench) -> None:
    @bench.app.task
    async def echo(text: str) -> str:
        return text

    handle = await echo.enqueue("hello")
    await bench.run()
    assert await handle.result() == "hello"


async def test_b6_13_input_that_does_not_fit_is_refused_and_not_stored(bench: Bench) -> None:
    @bench.app.task
    async def echo(text: str) -> str:
        return text

    with pytest.raises(InvalidInput):
        await echo.enqueue(42)  # type: ignore[arg-type]
    assert await bench.app.jobs.count() == 0


async def test_b6_14_always_failing_ends_after_its_attempts(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task(retry=RetryPolicy(attempts=2, base=0.001, jitter=0.0))
    async def failing() -> None:
        calls.append(1)
        raise ValueError("kept")

    handle = await failing.enqueue()
    await bench.run()
    await bench.run_after(0.001)
    record = await handle.status()
    assert (record.state, record.attempt, len(calls)) == (JobState.DEAD, 2, 2)
    assert [failure.message for failure in record.failures] == ["kept", "kept"]


async def test_b6_17_a_task_nobody_knows_is_left_and_shown(bench: Bench) -> None:
    stranger = bench.app.by_name("elsewhere", registered=False)
    handle = await stranger.enqueue(n=1)
    await bench.run()
    record = await handle.status()
    assert (record.state, record.attempt, record.deliveries) == (JobState.QUEUED, 1, 0)
    (waiting,) = await bench.app.backlog()
    assert waiting.task == "elsewhere"


async def test_b6_18_output_that_does_not_fit_is_a_failure(bench: Bench) -> None:
    @bench.app.task(retry=1)
    async def number() -> int:
        return "text"  # type: ignore[return-value]

    handle = await number.enqueue()
    await bench.run()
    record = await handle.status()
    assert (record.state, record.result) == (JobState.DEAD, None)


async def test_b6_19_waiting_for_a_job_that_is_not_there(bench: Bench) -> None:
    @bench.app.task
    async def one() -> int:
        return 1

    with pytest.raises(JobNotFound):
        await one.handle(bench.app.new_id()).result(timeout=0.05)


def test_b6_20_whether_a_task_is_known(bench: Bench) -> None:
    assert "one" not in bench.app.tasks

    @bench.app.task
    async def one() -> int:
        return 1

    assert "one" in bench.app.tasks


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, 0.0])
async def test_b6_26_empty_values_come_back_unchanged(bench: Bench, value: object) -> None:
    seen: list[object] = []

    @bench.app.task
    async def echo(given: Any) -> Any:
        seen.append(given)
        return given

    handle = await echo.enqueue(value)
    await bench.run()
    result = await handle.result()
    assert (result, type(result)) == (value, type(value))
    assert (seen, type(seen[0])) == ([value], type(value))


async def test_b6_27_a_waiting_retry_holds_no_slot(bench: Bench) -> None:
    order: list[str] = []

    @bench.app.task(retry=RetryPolicy(base=800.0, jitter=0.0))
    async def failing() -> None:
        order.append("failing")
        raise ValueError

    @bench.app.task
    async def following() -> None:
        order.append("following")

    await failing.enqueue()
    await following.enqueue()
    await bench.app.worker(concurrency=1).run_until_idle()
    assert order == ["failing", "following"], "and no time has passed"


async def test_b6_30_a_stop_does_not_wait_for_a_retry(bench: Bench) -> None:
    failed = asyncio.Event()

    @bench.app.task(retry=RetryPolicy(base=300.0, jitter=0.0))
    async def failing() -> None:
        failed.set()
        raise ValueError

    handle = await failing.enqueue()
    worker = bench.app.worker()
    await worker.start()
    await failed.wait()
    stopped = await worker.stop()
    record = await handle.status()
    assert (stopped.drained, record.state, record.attempt) == (True, JobState.QUEUED, 2)
    assert record.reason != DeadReason.ABORTED
