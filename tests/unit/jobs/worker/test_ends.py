"""Every way an attempt can end, and what is recorded of it."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta
from typing import Any

import pytest

from offpath.errors import Abort, RetryAfter, Snooze
from offpath.jobs.values.classification import ABORT, RETRY
from offpath.jobs.worker.judge import AttemptRules
from offpath.model.event import EventKind
from offpath.model.job import DeadReason, JobState
from offpath.model.options import RunOptions, encode_run
from offpath.model.retry import BackoffKind, RetryPolicy
from tests.unit.jobs.worker.rig import Rig, at, claim

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - a datetime without a zone is the point


async def test_value_is_the_result(rig: Rig) -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    rig.task(add)
    job = await rig.enqueue("add", '{"a":1,"b":2}')
    await rig.run()
    record = await rig.record(job)
    assert (record.state, record.result) == (JobState.SUCCEEDED, "3")
    assert rig.kinds(job) == [
        EventKind.QUEUED,
        EventKind.STARTED,
        EventKind.SUCCEEDED,
        EventKind.GROUP_DONE,
    ]
    assert rig.ended == [job]


async def test_sync_handler_runs_in_a_thread_with_the_same_context(rig: Rig) -> None:
    seen: list[Any] = []

    def work(ctx: Any, n: int) -> int:
        seen.append((ctx.id, ctx.attempt, ctx.blocking(ctx.claim("once"))))
        return n * 2

    rig.task(work)
    job = await rig.enqueue("work", '{"n":4}')
    await rig.run()
    assert (await rig.record(job)).result == "8"
    assert seen == [(job, 1, True)]


async def test_failure_retries_with_backoff_and_holds_no_slot(rig: Rig) -> None:
    calls: list[int] = []

    async def flaky(ctx: Any) -> int:
        calls.append(ctx.attempt)
        if len(calls) < 3:
            raise ValueError("not yet")
        return 7

    rig.task(flaky)
    job = await rig.enqueue("flaky", base=10.0)
    worker = await rig.started()
    await rig.pass_time(1)
    record = await rig.record(job)
    assert (record.state, record.attempt, calls) == (JobState.QUEUED, 2, [1])
    assert worker.active() == []
    await rig.pass_time(8)
    assert calls == [1]
    await rig.pass_time(25)
    record = await rig.record(job)
    assert (record.state, record.result, calls) == (JobState.SUCCEEDED, "7", [1, 2, 3])
    assert [failure.message for failure in record.failures] == ["not yet", "not yet"]
    assert rig.kinds(job).count(EventKind.FAILED) == 2


async def test_exhausted_job_is_dead_with_every_attempt(rig: Rig) -> None:
    async def boom() -> None:
        raise LookupError("gone")

    rig.task(boom)
    job = await rig.enqueue("boom", attempts=2, base=0.0)
    await rig.run()
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.EXHAUSTED)
    assert [(f.type, f.message, f.attempt) for f in record.failures] == [
        ("LookupError", "gone", 1),
        ("LookupError", "gone", 2),
    ]
    assert "raise LookupError" in (record.failures[0].traceback or "")
    assert rig.kinds(job)[-3:] == [EventKind.FAILED, EventKind.DEAD, EventKind.GROUP_DONE]


@pytest.mark.parametrize("snooze", [Snooze(15), Snooze(timedelta(seconds=15)), "until"])
async def test_snooze_does_not_count(rig: Rig, snooze: Any) -> None:
    seen: list[int] = []

    async def later(ctx: Any) -> str:
        seen.append(ctx.attempt)
        if len(seen) == 1:
            raise Snooze(until=at(rig.clock, 15)) if snooze == "until" else snooze
        return "ok"

    rig.task(later)
    job = await rig.enqueue("later", attempts=1)
    await rig.started()
    await rig.pass_time(14)
    assert await rig.state(job) is JobState.QUEUED
    await rig.pass_time(2)
    assert (await rig.record(job)).result == '"ok"'
    assert seen == [1, 1]
    assert EventKind.SNOOZED in rig.kinds(job)


@pytest.mark.parametrize("delay", [15, timedelta(seconds=15)])
async def test_retry_after_counts_and_names_the_wait(rig: Rig, delay: Any) -> None:
    seen: list[int] = []

    async def later(ctx: Any) -> str:
        seen.append(ctx.attempt)
        if len(seen) == 1:
            raise RetryAfter(delay) from ConnectionError("busy")
        return "ok"

    rig.task(later)
    job = await rig.enqueue("later", attempts=2, base=0.0)
    await rig.started()
    await rig.pass_time(14)
    assert await rig.state(job) is JobState.QUEUED
    await rig.pass_time(2)
    record = await rig.record(job)
    assert (record.result, seen) == ('"ok"', [1, 2])
    assert [(f.type, f.message) for f in record.failures] == [("ConnectionError", "busy")]


async def test_retry_after_the_last_attempt_is_dead_and_its_own_number_counts(rig: Rig) -> None:
    async def once_more(ctx: Any) -> None:
        raise RetryAfter(0, attempts=3)

    rig.task(once_more)
    job = await rig.enqueue("once_more", attempts=1)
    await rig.run()
    record = await rig.record(job)
    assert (record.reason, record.attempt) == (DeadReason.EXHAUSTED, 3)


@pytest.mark.parametrize("bad", [RetryAfter(math.nan), RetryAfter(1, attempts=0)])
async def test_unusable_retry_after_is_a_failure(rig: Rig, bad: RetryAfter) -> None:
    async def confused() -> None:
        raise bad

    rig.task(confused)
    job = await rig.enqueue("confused", attempts=1)
    await rig.run()
    record = await rig.record(job)
    assert record.failure is not None
    assert "RetryAfter" in record.failure.message


@pytest.mark.parametrize("bad", [Snooze(math.nan), Snooze(until=NAIVE)])
async def test_unusable_snooze_is_a_failure(rig: Rig, bad: Snooze) -> None:
    async def confused() -> None:
        raise bad

    rig.task(confused)
    job = await rig.enqueue("confused", attempts=1)
    await rig.run()
    record = await rig.record(job)
    assert record.reason == DeadReason.EXHAUSTED
    assert record.failure is not None
    assert "Snooze" in record.failure.message


async def test_abort_is_dead_at_once_and_keeps_its_cause(rig: Rig) -> None:
    async def hopeless() -> None:
        try:
            raise KeyError("account")
        except KeyError as error:
            raise Abort("no such account") from error

    rig.task(hopeless, on_failure=lambda _error, _info: RETRY)
    job = await rig.enqueue("hopeless", attempts=5)
    await rig.run()
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.ABORTED)
    assert record.failure is not None
    assert (record.failure.type, record.failure.message) == ("KeyError", "'account'")


@pytest.mark.parametrize(
    ("verdict", "calls", "state"),
    [
        (ABORT, 1, JobState.DEAD),
        (RETRY, 2, JobState.DEAD),
        (None, 2, JobState.DEAD),
        ("nonsense", 2, JobState.DEAD),
        (ValueError("classifier"), 2, JobState.DEAD),
        (Snooze(60), 1, JobState.QUEUED),
        (RetryAfter(60), 1, JobState.QUEUED),
        (RetryAfter(60, attempts=1), 1, JobState.DEAD),
    ],
)
@pytest.mark.parametrize("own", [True, False])
async def test_classifier(rig: Rig, verdict: Any, calls: int, state: JobState, own: bool) -> None:
    seen: list[int] = []

    def classify(error: BaseException, info: Any) -> Any:
        assert isinstance(error, RuntimeError)
        assert (info.task, info.attempts) == ("failing", 2)
        if isinstance(verdict, ValueError):
            raise verdict
        return verdict

    async def failing() -> None:
        seen.append(1)
        raise RuntimeError("its own error")

    rig.task(failing, on_failure=classify if own else None)
    job = await rig.enqueue("failing", attempts=2, base=0.0)
    await rig.run(rules=AttemptRules(on_failure=None if own else classify))
    record = await rig.record(job)
    assert (len(seen), record.state) == (calls, state)
    broken = verdict == "nonsense" or isinstance(verdict, ValueError)
    assert ("classify" in rig.phases()) is broken
    if record.failure is not None:
        assert record.failure.message == "its own error"


async def test_async_classifier_of_the_task_goes_before_the_apps(rig: Rig) -> None:
    async def classify(_error: BaseException, _info: Any) -> Any:
        return ABORT

    def never(_error: BaseException, _info: Any) -> Any:
        raise AssertionError("the app's classifier was asked")

    async def failing() -> None:
        raise RuntimeError

    rig.task(failing, on_failure=classify)
    job = await rig.enqueue("failing")
    await rig.run(rules=AttemptRules(on_failure=never))
    assert (await rig.record(job)).reason == DeadReason.ABORTED
    assert rig.errors == []


async def test_custom_backoff_and_its_failure(rig: Rig) -> None:
    async def failing() -> None:
        raise RuntimeError

    def backoff(failures: int) -> float:
        if failures == 1:
            return 42.0
        raise ZeroDivisionError

    rig.task(failing, backoff=backoff)
    policy = RetryPolicy(attempts=5, base=3.0, factor=1.0, jitter=0.0, kind=BackoffKind.CUSTOM)
    options = encode_run(RunOptions(retry=policy))
    job = await rig.enqueue("failing", options=options)
    await rig.run()
    start = rig.clock.now()
    assert (await rig.record(job)).run_at == start + timedelta(seconds=42)
    await rig.pass_time(42, step=42)
    await rig.run()
    assert (await rig.record(job)).run_at == start + timedelta(seconds=45)
    assert "backoff" in rig.phases()


class Unprintable(Exception):
    def __str__(self) -> str:
        raise OSError("no text")


class Cyclic(Exception):
    def __init__(self) -> None:
        super().__init__()
        self.me = self
        self.__cause__ = self


@pytest.mark.parametrize(
    "error",
    [
        Unprintable(),
        Cyclic(),
        ValueError("x" * 5_000_000),
        ValueError("nul \x00 and surrogate \ud800"),
        ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
        BaseExceptionGroup("several", [KeyboardInterrupt()]),
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        StopIteration(5),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        MemoryError(),
        RecursionError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("threaded", [False, True])
async def test_whatever_is_raised_is_recorded_and_the_worker_lives(
    rig: Rig, error: BaseException, threaded: bool
) -> None:
    async def raising() -> None:
        raise error

    def raising_sync() -> None:
        raise error

    async def fine() -> int:
        return 1

    task = rig.task(raising_sync if threaded else raising, name="raising")
    rig.task(fine)
    job = await rig.enqueue("raising", attempts=1)
    other = await rig.enqueue("fine")
    await rig.run()
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.EXHAUSTED)
    failure = record.failure
    assert failure is not None
    assert failure.type in {type(error).__name__, "RuntimeError"}, task
    assert len(failure.message) < 5_000
    assert len(failure.traceback or "") < 20_000
    stored = failure.message + (failure.traceback or "")
    assert "\x00" not in stored
    stored.encode()
    assert await rig.state(other) is JobState.SUCCEEDED


async def test_bad_input_is_dead_without_running(rig: Rig) -> None:
    async def typed(n: int) -> None:
        raise AssertionError("it ran")

    rig.task(typed)
    job = await rig.enqueue("typed", '{"n":"secret-text"}')
    await rig.run()
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.BAD_INPUT)
    assert record.failure is not None
    assert record.failure.kind == "bad_input"
    assert "secret-text" not in record.failure.message


async def test_unreadable_options_are_bad_input(rig: Rig) -> None:
    async def never() -> None:
        raise AssertionError("it ran")

    rig.task(never)
    job = await rig.enqueue("never", options='{"timeout":"soon"}')
    await rig.run()
    assert (await rig.record(job)).reason == DeadReason.BAD_INPUT


async def test_a_result_that_does_not_fit_is_no_reason_to_try_again(rig: Rig) -> None:
    async def wrong() -> int:
        return "text"  # type: ignore[return-value]

    rig.task(wrong)
    job = await rig.enqueue("wrong", attempts=2, base=0.0)
    await rig.run()
    record = await rig.record(job)
    assert (record.reason, len(record.failures)) == (DeadReason.UNSETTLEABLE, 1)


async def test_oversize_result_names_the_limit(rig: Rig) -> None:
    async def huge() -> str:
        return "x" * 2_000

    async def fits() -> str:
        return "x" * 998

    rig.task(huge)
    rig.task(fits)
    job = await rig.enqueue("huge", attempts=3)
    small = await rig.enqueue("fits", attempts=1)
    await rig.run(max_result_bytes=1_000)
    record = await rig.record(job)
    assert record.failure is not None
    assert (record.failure.type, record.reason) == ("ResultError", DeadReason.UNSETTLEABLE)
    assert "1000" in record.failure.message
    assert await rig.state(small) is JobState.SUCCEEDED


async def test_children_join_the_end_and_are_dropped_by_a_failure(rig: Rig) -> None:
    async def parent(ctx: Any) -> None:
        ctx.enqueue(rig.job("child"))
        ctx.enqueue([rig.job("child"), rig.job("child")])
        if ctx.attempt == 1:
            raise ValueError

    children: list[tuple[str, str]] = []

    async def child(ctx: Any) -> None:
        children.append((ctx.parent, ctx.group_id))

    rig.task(parent)
    rig.task(child)
    job = await rig.enqueue("parent", base=0.0)
    await rig.run()
    assert children == [(job, job)] * 3
    done = [event for event in rig.events if event.kind is EventKind.GROUP_DONE]
    assert [event.group_id for event in done] == [job]


async def test_child_whose_key_is_taken_fails_the_attempt(rig: Rig) -> None:
    async def parent(ctx: Any) -> None:
        ctx.enqueue(rig.job("child", unique=claim("k")))

    async def child() -> None:
        return None

    rig.task(parent)
    rig.task(child)
    await rig.enqueue("child", unique=claim("k"), delay=1_000.0)
    job = await rig.enqueue("parent", attempts=2, base=0.0)
    other = await rig.enqueue("child")
    await rig.run()
    record = await rig.record(job)
    assert (record.reason, record.attempt) == (DeadReason.EXHAUSTED, 2)
    assert record.failure is not None
    assert record.failure.type == "UniqueConflict"
    assert await rig.state(other) is JobState.SUCCEEDED
