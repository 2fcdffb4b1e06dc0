"""Edge cases A.28, by number: results, retries, classifiers, deadlines, delays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath import (
    ABORT,
    Abort,
    App,
    Context,
    FailureInfo,
    JobDead,
    JobState,
    RetryOptions,
    Snooze,
    UnknownTask,
)
from offpath.jobs.values.classification import Verdict
from offpath.model import retry
from offpath.model.job import DeadReason
from offpath.retries import RetryPolicy
from tests.unit.edge_cases.bench import Bench


class HttpError(Exception):
    """The error that a partner's client raises."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


async def test_a28_001_own_result_and_by_name(bench: Bench) -> None:
    @bench.app.task
    async def add(a: int, b: int) -> int:
        return a + b

    direct = await add.enqueue(2, 3)
    named = await bench.app.enqueue_by_name("add", a=10, b=1)
    await bench.run()
    assert (await direct.result(), await named.result()) == (5, 11)


async def test_a28_006_a_handler_without_a_value(bench: Bench) -> None:
    @bench.app.task
    async def nothing() -> None:
        return None

    handle = await nothing.enqueue()
    await bench.run()
    assert (await handle.status()).state is JobState.SUCCEEDED
    assert await handle.result() is None  # type: ignore[func-returns-value]


async def test_a28_009_a_child_knows_its_parent(bench: Bench) -> None:
    seen: list[str | None] = []

    @bench.app.task
    async def child(ctx: Context) -> None:
        seen.append(ctx.parent)

    @bench.app.task
    async def parent(ctx: Context) -> None:
        seen.append(ctx.parent)
        ctx.enqueue(child.job())

    handle = await parent.enqueue()
    await bench.run()
    assert seen == [None, handle.id]


async def test_a28_013_any_value_is_a_result(bench: Bench) -> None:
    @bench.app.task
    async def answer() -> int:
        return 42

    handle = await answer.enqueue()
    await bench.run()
    assert await handle.result() == 42


async def test_a28_014_one_job_sent_twice_runs_once(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task
    async def work() -> None:
        calls.append(1)

    job = work.job()
    await bench.app.enqueue(job)
    await bench.run()
    await bench.app.enqueue(job)
    await bench.run()
    assert calls == [1]


async def test_a28_015_success_on_the_third_call(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task(retry=RetryPolicy(attempts=5, base=5.0, factor=1.0, jitter=0.0))
    async def third() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise ValueError
        return len(calls)

    handle = await third.enqueue()
    await bench.run()
    await bench.run_after(5)
    await bench.run_after(5)
    assert (await handle.result(), len(calls)) == (3, 3)


async def test_a28_016_always_failing_is_one_dead_letter(bench: Bench) -> None:
    @bench.app.task(retry=RetryPolicy(attempts=2, base=0.0))
    async def failing() -> None:
        raise ValueError("the text")

    handle = await failing.enqueue()
    await bench.run()
    with pytest.raises(JobDead, match="the text"):
        await handle.result()
    assert [record.id for record in (await bench.app.dead.list()).items] == [handle.id]


async def test_a28_017_attempts_given_at_queue_time_win(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task
    async def failing() -> None:
        calls.append(1)
        raise ValueError

    await failing.options(retry=RetryOptions(attempts=2, base=0.0)).enqueue()
    await bench.run()
    assert len(calls) == 2


async def test_a28_019_abort_shows_its_cause(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task(retry=5)
    async def hopeless() -> None:
        calls.append(1)
        raise Abort("giving up") from HttpError(410)

    handle = await hopeless.enqueue()
    await bench.run()
    with pytest.raises(JobDead, match="status 410"):
        await handle.result()
    assert calls == [1]


def _classify(error: BaseException, _info: FailureInfo) -> Verdict:
    match error:
        case HttpError(status=400):
            return ABORT
        case HttpError(status=429):
            return Snooze(15)
        case _:
            return None


async def test_a28_020_a_status_that_cannot_get_better_aborts(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task(retry=5, on_failure=_classify)
    async def call() -> None:
        calls.append(1)
        raise HttpError(400)

    handle = await call.enqueue()
    await bench.run()
    record = await handle.status()
    assert (record.reason, calls) == (DeadReason.ABORTED, [1])


async def test_a28_021_too_many_requests_costs_no_attempt(bench: Bench) -> None:
    seen: list[int] = []

    @bench.app.task(retry=2, on_failure=_classify)
    async def call(ctx: Context) -> str:
        seen.append(ctx.attempt)
        if len(seen) == 1:
            raise HttpError(429)
        return "ok"

    handle = await call.enqueue()
    await bench.run()
    await bench.run_after(15)
    assert (await handle.result(), seen) == ("ok", [1, 1])
    assert "snoozed" in bench.kinds(handle.id)


async def test_a28_022_a_classifier_may_name_the_time(bench: Bench) -> None:
    calls: list[int] = []

    def until(_error: BaseException, _info: FailureInfo) -> Snooze:
        return Snooze(until=bench.clock.now() + timedelta(seconds=15))

    @bench.app.task(on_failure=until)
    async def call() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise HttpError(503)
        return len(calls)

    handle = await call.enqueue()
    await bench.run()
    await bench.run_after(14)
    assert calls == [1]
    await bench.run_after(1)
    assert await handle.result() == 2


async def test_a28_026_a_classifier_that_raises_hides_nothing(bench: Bench) -> None:
    def broken(_error: BaseException, _info: FailureInfo) -> Verdict:
        raise ZeroDivisionError("the classifier's own")

    @bench.app.task(retry=RetryPolicy(attempts=2, base=0.0), on_failure=broken)
    async def failing() -> None:
        raise ValueError("the handler's own")

    handle = await failing.enqueue()
    await bench.run()
    with pytest.raises(JobDead, match="the handler's own"):
        await handle.result()
    assert [phase for _, phase in bench.errors] == ["classify", "classify"]


async def test_a28_027_the_wait_is_kept(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task(retry=RetryPolicy(attempts=5, base=1000.0, cap=1000.0, jitter=0.0))
    async def failing() -> None:
        calls.append(1)
        raise ValueError

    await failing.enqueue()
    await bench.run()
    await bench.run_after(999)
    assert calls == [1]


@pytest.mark.parametrize(
    ("policy", "failures", "chance", "wait"),
    [
        (RetryPolicy(base=100.0, factor=2.0, cap=10_000.0, jitter=0.0), 1, 0.0, 100.0),
        (RetryPolicy(base=100.0, factor=2.0, cap=10_000.0, jitter=0.0), 2, 0.0, 200.0),
        (RetryPolicy(base=100.0, factor=2.0, cap=150.0, jitter=0.0), 3, 0.0, 150.0),
        (RetryPolicy(base=100.0, jitter=0.5, cap=100.0), 1, 1.0, 50.0),
        (RetryPolicy(), 1, 0.0, 1.0),
    ],
    ids=["29-first", "29-second", "29-capped", "30-jitter", "31-default"],
)
def test_a28_029_the_steps_of_the_backoff(
    policy: RetryPolicy, failures: int, chance: float, wait: float
) -> None:
    assert retry.delay(policy, failures, chance) == wait


async def test_a28_044_a_delayed_job_waits_in_the_store(bench: Bench) -> None:
    @bench.app.task
    async def one() -> int:
        return 1

    handle = await one.options(delay=40).enqueue()
    await bench.run_after(20)
    record = await handle.status()
    assert record.state is JobState.QUEUED
    assert record.run_at == record.enqueued_at + timedelta(seconds=40)
    await bench.run_after(20)
    assert (await handle.status()).state is JobState.SUCCEEDED


async def test_a28_045_the_times_of_a_job_are_in_order(bench: Bench) -> None:
    @bench.app.task
    async def one() -> int:
        return 1

    handle = await one.enqueue()
    await bench.run_after(0.5)
    record = await handle.status()
    assert record.run_at == record.enqueued_at
    assert record.started_at is not None
    assert record.finished_at is not None
    assert record.run_at <= record.started_at <= record.finished_at


async def test_a28_046_not_before_its_time(bench: Bench) -> None:
    @bench.app.task
    async def one() -> int:
        return 1

    due = bench.clock.now() + timedelta(seconds=40)
    handle = await one.options(run_at=due).enqueue()
    await bench.run_after(39.999)
    assert (await handle.status()).state is JobState.QUEUED
    await bench.run_after(0.001)
    assert (await handle.status()).started_at == due


async def test_a28_050_a_deadline_before_the_retry_ends_it(bench: Bench) -> None:
    calls: list[int] = []

    @bench.app.task(deadline=30, retry=RetryPolicy(base=50.0, cap=50.0, jitter=0.0))
    async def failing() -> None:
        calls.append(1)
        raise ValueError

    handle = await failing.enqueue()
    await bench.run()
    with pytest.raises(JobDead, match="deadline"):
        await handle.result()
    assert calls == [1]
    assert "expired" in bench.kinds(handle.id)


async def test_a28_051_a_deadline_before_the_first_run_ends_it(bench: Bench) -> None:
    @bench.app.task
    async def never() -> None:
        raise AssertionError("it ran")

    handle = await never.options(delay=40, deadline=15).enqueue()
    await bench.run_after(40)
    with pytest.raises(JobDead, match="deadline"):
        await handle.result()
    assert "expired" in bench.kinds(handle.id)


async def test_a28_053_looking_at_what_is_not_due_costs_it_nothing(bench: Bench) -> None:
    @bench.app.task(retry=1)
    async def one() -> int:
        return 1

    handle = await one.options(delay=60).enqueue()
    for _ in range(20):
        await bench.run_after(1)
    record = await handle.status()
    assert (record.state, record.attempt, record.deliveries) == (JobState.QUEUED, 1, 0)


async def test_a28_055_memory_keeps_delay_and_deadline_too() -> None:
    async with App() as app:

        @app.task
        async def never() -> None:
            raise AssertionError("it ran")

        @app.task
        async def one() -> int:
            return 1

        waiting = await never.options(delay=3_600).enqueue()
        late = await never.options(deadline=timedelta(microseconds=1)).enqueue()
        with pytest.raises(JobDead) as dead:
            await late.result(timeout=10)
        assert dead.value.reason is DeadReason.DEADLINE
        assert await (await one.enqueue()).result(timeout=10) == 1
        assert (await waiting.status()).state is JobState.QUEUED


async def test_a28_060_an_unknown_task_is_refused_when_enqueued(bench: Bench) -> None:
    with pytest.raises(UnknownTask):
        await bench.app.enqueue_by_name("nobody", n=1)
    assert await bench.app.jobs.count() == 0
