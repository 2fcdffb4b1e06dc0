"""Timeouts, deadlines and cancellation: attempts that are told to end."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from offpath.errors import Abort, Snooze
from offpath.jobs.values.run import Interruption
from offpath.model.event import EventKind
from offpath.model.job import DeadReason, JobState
from offpath.runtime.clock import ManualClock
from tests.unit.jobs.worker.rig import Rig, at, breathe, until


async def test_timeout_cancels_an_async_handler_and_counts(rig: Rig) -> None:
    told: list[Any] = []

    async def slow(ctx: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append((ctx.cancelled.is_set(), ctx.interruption))

    rig.task(slow)
    job = await rig.enqueue("slow", attempts=1, timeout=5.0)
    await rig.started()
    await rig.pass_time(4.5)
    assert told == []
    await rig.pass_time(1)
    record = await rig.record(job)
    assert told == [(True, Interruption.TIMEOUT)]
    assert record.failure is not None
    assert (record.failure.kind, record.failure.type) == ("timeout", "TimeoutError")
    assert "5 s" in record.failure.message
    assert "await asyncio.Event().wait()" in (record.failure.traceback or "")
    reading = rig.metrics.get("offpath_jobs_timed_out_total", task="slow", queue="default")
    assert reading is not None
    assert reading.value == 1


async def test_timeout_tells_a_thread_and_holds_its_slot_until_it_ends(rig: Rig) -> None:
    go_on = threading.Event()

    def slow(ctx: Any) -> str:
        assert ctx.cancelled.wait(10)
        assert go_on.wait(10)
        return "too late"

    rig.task(slow)
    job = await rig.enqueue("slow", attempts=1, timeout=2.0)
    worker = await rig.started(concurrency=1)
    await rig.pass_time(3)
    assert await rig.state(job) is JobState.RUNNING
    assert len(worker.active()) == 1
    go_on.set()
    await until(lambda: worker.active() == [])
    record = await rig.record(job)
    assert record.failure is not None
    assert record.failure.kind == "timeout"


async def test_abort_raised_at_the_timeout_wins(rig: Rig) -> None:
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Abort("the partner is gone") from None

    rig.task(slow)
    job = await rig.enqueue("slow", attempts=5, timeout=1.0)
    await rig.started()
    await rig.pass_time(2)
    record = await rig.record(job)
    assert record.reason == DeadReason.ABORTED


async def test_handler_that_swallows_its_cancellation_is_cancelled_again(rig: Rig) -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while swallowed < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed += 1

    rig.task(stubborn)
    job = await rig.enqueue("stubborn", attempts=1, timeout=1.0)
    await rig.started()
    await rig.pass_time(1)
    assert swallowed == 1
    await rig.pass_time(3)
    record = await rig.record(job)
    assert (swallowed, record.state) == (3, JobState.DEAD)


async def test_handler_that_never_heeds_is_reported_and_keeps_its_slot(rig: Rig) -> None:
    release = asyncio.Event()

    async def deaf() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    rig.task(deaf)
    await rig.enqueue("deaf", attempts=1, timeout=1.0)
    worker = await rig.started()
    await rig.pass_time(10)
    assert rig.phases().count("cancel") == 1
    assert len(worker.active()) == 1
    release.set()
    await until(lambda: worker.active() == [])


async def test_many_short_jobs_with_a_long_timeout_leave_nothing_behind(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    worker = rig.worker()
    for _ in range(3_000):
        await rig.enqueue("quick", timeout=3_600.0)
    counts = await worker.run_until_idle()
    assert counts.succeeded == 3_000
    assert len(worker._engine.watch._alarms) <= 1_000


# -- deadlines -------------------------------------------------------------------------------------


async def test_deadline_before_the_first_run(rig: Rig) -> None:
    """A.28 51: delay 40, deadline 15: never runs."""

    async def never() -> None:
        raise AssertionError("it ran")

    rig.task(never)
    job = await rig.enqueue("never", delay=40.0, deadline_in=15.0)
    await rig.started()
    await rig.pass_time(41, step=1)
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.DEADLINE)
    assert record.failure is not None
    assert "deadline" in record.failure.message
    assert EventKind.EXPIRED in rig.kinds(job)


async def test_deadline_before_the_retry(rig: Rig) -> None:
    """A.28 50: a deadline before the backoff ends: one call."""
    calls: list[int] = []

    async def failing() -> None:
        calls.append(1)
        raise ValueError("the real error")

    rig.task(failing)
    job = await rig.enqueue("failing", base=25.0, deadline_in=20.0)
    await rig.run()
    record = await rig.record(job)
    assert (len(calls), record.reason) == (1, DeadReason.DEADLINE)
    assert record.failure is not None
    assert "deadline" in record.failure.message
    assert "the real error" in record.failure.message
    assert EventKind.EXPIRED in rig.kinds(job)


@pytest.mark.parametrize("threaded", [False, True])
async def test_deadline_while_running(rig: Rig, threaded: bool) -> None:
    """A.28 56, mended: a handler that overruns its deadline is stopped."""

    async def slow() -> None:
        await asyncio.Event().wait()

    def slow_sync(ctx: Any) -> str:
        assert ctx.cancelled.wait(10)
        return "too late"

    rig.task(slow_sync if threaded else slow, name="slow")
    job = await rig.enqueue("slow", deadline_in=4.0)
    await rig.started()
    await breathe()
    await rig.pass_time(5)
    await until(lambda: bool(rig.ended))
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.DEADLINE)
    assert record.result is None


async def test_snooze_past_the_deadline_is_dead(rig: Rig) -> None:
    async def later() -> None:
        raise Snooze(100)

    rig.task(later)
    job = await rig.enqueue("later", deadline=at(rig.clock, 50))
    await rig.run()
    assert (await rig.record(job)).reason == DeadReason.DEADLINE


# -- cancellation ----------------------------------------------------------------------------------


async def test_cancel_reaches_a_running_async_handler_promptly(rig: Rig) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    await rig.started()
    await breathe()
    assert await rig.state(job) is JobState.RUNNING
    await rig.store.cancel([job])
    await breathe()
    record = await rig.record(job)
    assert (record.state, record.failures) == (JobState.CANCELLED, ())
    assert rig.kinds(job)[-2:] == [EventKind.CANCELLED, EventKind.GROUP_DONE]


async def test_cancelled_job_never_succeeds(rig: Rig) -> None:
    finish = threading.Event()

    def stubborn() -> int:
        assert finish.wait(10)
        return 1

    rig.task(stubborn)
    job = await rig.enqueue("stubborn")
    worker = await rig.started()
    await breathe()
    await rig.store.cancel([job])
    await rig.pass_time(2)
    finish.set()
    await until(lambda: worker.active() == [])
    record = await rig.record(job)
    assert (record.state, record.result) == (JobState.CANCELLED, None)
    assert worker.counts.cancelled == 1


async def test_error_of_a_cancelled_handler_is_kept(rig: Rig) -> None:
    async def messy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("while cleaning up")

    rig.task(messy)
    job = await rig.enqueue("messy")
    await rig.started()
    await breathe()
    await rig.store.cancel([job])
    await breathe()
    record = await rig.record(job)
    assert record.state is JobState.CANCELLED
    assert [failure.message for failure in record.failures] == ["while cleaning up"]


async def test_signals_can_be_awaited(rig: Rig) -> None:
    async def waits(ctx: Any) -> None:
        with pytest.raises(RuntimeError, match="await signal"):
            ctx.cancelled.wait()
        beside = asyncio.ensure_future(_until_set(ctx.cancelled))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await beside
            raise

    async def _until_set(signal: Any) -> None:
        await signal
        heard.append("set")

    heard: list[str] = []
    rig.task(waits)
    job = await rig.enqueue("waits")
    await rig.started()
    await breathe()
    await rig.store.cancel([job])
    await breathe()
    assert heard == ["set"]
    assert await rig.state(job) is JobState.CANCELLED


WRONG = (-1800.0, 1800.0)
"""Seconds by which a machine's clock is behind the store's, or before it."""


def set_wrong(rig: Rig, seconds: float) -> ManualClock:
    """Give workers a clock of their own, which is wrong; the store's clock."""
    right = rig.clock
    rig.clock = ManualClock(right.now() + timedelta(seconds=seconds))
    return right


@pytest.mark.parametrize("seconds", WRONG)
async def test_a_wrong_clock_ends_no_job_early_and_lets_none_live(rig: Rig, seconds: float) -> None:
    async def fine() -> None: ...

    rig.task(fine)
    store_clock = set_wrong(rig, seconds)
    in_time = await rig.enqueue("fine", deadline_in=60.0)
    late = await rig.enqueue("fine", delay=61.0, deadline_in=60.0)
    store_clock.advance(59)
    await rig.run()
    record = await rig.record(in_time)
    assert record.state is JobState.SUCCEEDED
    assert record.started_at == record.finished_at == store_clock.now()
    store_clock.advance(3)
    await rig.run()
    record = await rig.record(late)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.DEADLINE)
    assert record.finished_at == store_clock.now()


@pytest.mark.parametrize("seconds", WRONG)
async def test_a_wrong_clock_tells_a_running_job_of_its_deadline_in_time(
    rig: Rig, seconds: float
) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    rig.task(endless)
    store_clock = set_wrong(rig, seconds)
    job = await rig.enqueue("endless", deadline_in=4.0)
    await rig.started()
    for _ in range(3):
        store_clock.advance(1)
        await rig.pass_time(1)
    assert await rig.state(job) is JobState.RUNNING
    for _ in range(2):
        store_clock.advance(1)
        await rig.pass_time(1)
    await until(lambda: bool(rig.ended))
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.DEADLINE)
    assert record.failure is not None
    assert record.finished_at == record.failure.at == record.deadline
