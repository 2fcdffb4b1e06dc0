"""Stopping: drained, aborted, hanging, twice, from a handler, before the start."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from typing import Any, cast

import pytest

from offpath.errors import AppClosed, StoreUnavailable
from offpath.jobs.worker.judge import AttemptRules
from offpath.jobs.worker.os_signals import StopSignals
from offpath.jobs.worker.terms import Stage, Stopped
from offpath.jobs.worker.worker import Worker
from offpath.model.job import DeadReason, JobState
from offpath.model.tally import Turn, Verdict
from tests.unit.jobs.worker.rig import Rig, breathe, until


async def finished(rig: Rig, stop: asyncio.Future[Stopped], limit: float) -> Stopped:
    """Let time pass until the stop is over; it must be within ``limit``."""
    began = rig.clock.monotonic()
    while not stop.done():
        assert rig.clock.monotonic() - began <= limit, "the stop took too long"
        await rig.pass_time(0.1, step=0.1)
    return stop.result()


def stopping(worker: Worker, **how: Any) -> asyncio.Future[Stopped]:
    return asyncio.ensure_future(worker.stop(**how))


async def test_drain_lets_every_kind_of_end_happen_and_takes_nothing_new(rig: Rig) -> None:
    gate = asyncio.Event()
    thread_gate = threading.Event()

    async def good(ctx: Any) -> int:
        await gate.wait()
        ctx.enqueue(rig.job("late"))
        return 1

    async def bad() -> None:
        await gate.wait()
        raise ValueError

    def sync() -> int:
        assert thread_gate.wait(10)
        return 2

    async def late() -> None:
        raise AssertionError("taken after the stop")

    for handler in (good, bad, sync, late):
        rig.task(handler)
    jobs = [await rig.enqueue(name) for name in ("good", "bad", "sync")]
    worker = await rig.started()
    await breathe()
    stop = stopping(worker, timeout=60.0)
    await breathe()
    new = await rig.enqueue("late")
    await rig.pass_time(20, step=1)
    assert [await rig.state(job) for job in jobs] == [JobState.RUNNING] * 3
    gate.set()
    thread_gate.set()
    await until(stop.done)
    assert stop.result() == Stopped(drained=True)
    assert stop.result().exit_code == 0
    states = [await rig.state(job) for job in jobs]
    assert states == [JobState.SUCCEEDED, JobState.QUEUED, JobState.SUCCEEDED]
    assert [(await rig.record(job)).attempt for job in jobs] == [1, 2, 1]
    assert await rig.state(new) is JobState.QUEUED
    assert all(one.gone_at for one in await rig.store.workers())


async def test_heartbeat_goes_on_until_the_last_job_has_ended(rig: Rig) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    worker = await rig.started(lease_seconds=2.0)
    other = await rig.started(lease_seconds=2.0)
    await breathe()
    stop = stopping(worker if worker.active() else other, timeout=60.0)
    await rig.pass_time(20, step=0.2)
    gate.set()
    await finished(rig, stop, 1)
    record = await rig.record(job)
    assert (record.state, record.deliveries) == (JobState.SUCCEEDED, 1)


@pytest.mark.parametrize("abort_fails", [False, True])
async def test_after_the_limit_jobs_are_given_back_or_fail(rig: Rig, abort_fails: bool) -> None:
    def sync(ctx: Any) -> None:
        assert ctx.cancelled.wait(10)
        raise RuntimeError("stopped")

    async def slow() -> None:
        await asyncio.Event().wait()

    rig.task(sync)
    rig.task(slow)
    jobs = [await rig.enqueue("slow"), await rig.enqueue("sync")]
    worker = await rig.started(rules=AttemptRules(abort_fails=abort_fails))
    await breathe()
    stop = stopping(worker, timeout=2.0)
    await rig.pass_time(1.9)
    assert not stop.done()
    await rig.pass_time(0.2)
    await until(lambda: worker.active() == [])
    result = await finished(rig, stop, 2.0)
    assert result == Stopped(drained=False)
    for job in jobs:
        record = await rig.record(job)
        if abort_fails:
            assert (record.state, record.reason) == (JobState.DEAD, DeadReason.ABORTED)
            assert record.failure is not None
            assert "aborted" in record.failure.message
        else:
            assert (record.state, record.attempt, record.losses) == (JobState.QUEUED, 1, 0)
            assert record.failures == ()


async def test_a_wrong_result_of_a_job_that_is_told_to_stop_is_not_given_back(rig: Rig) -> None:
    def wrong(ctx: Any) -> int:
        assert ctx.cancelled.wait(10)
        return "text"  # type: ignore[return-value]

    rig.task(wrong)
    job = await rig.enqueue("wrong", attempts=3)
    stop = stopping(await rig.started(), timeout=2.0)
    await rig.pass_time(2.1)
    await until(stop.done)
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, "unsettleable")


async def test_released_job_runs_at_once_elsewhere(rig: Rig) -> None:
    runs: list[int] = []

    async def slow(ctx: Any) -> None:
        runs.append(ctx.attempt)
        if len(runs) == 1:
            await asyncio.Event().wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    first = await rig.started()
    await breathe()
    await rig.started()
    await finished(rig, stopping(first, drain=False), 2)
    await breathe()
    assert runs == [1, 1]
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_stop_is_bounded_whatever_hangs(rig: Rig) -> None:
    release = threading.Event()

    def stuck() -> None:
        release.wait(30)

    async def deaf() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if release.is_set():
                    raise

    rig.task(stuck)
    rig.task(deaf)
    jobs = [await rig.enqueue("stuck"), await rig.enqueue("deaf")]
    worker = await rig.started()
    await breathe()
    stop = stopping(worker, timeout=1.0)
    result = await finished(rig, stop, 3.0)
    assert result == Stopped(drained=False, given_up=2)
    assert [await rig.state(job) for job in jobs] == [JobState.QUEUED] * 2
    release.set()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await breathe()


async def test_stop_while_the_store_is_away_says_what_was_not_recorded(rig: Rig) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    rig.task(slow)
    await rig.enqueue("slow")
    worker = await rig.started()
    await breathe()
    for operation in ("settle", "deregister", "extend", "signals"):
        rig.faulty.fail(operation, StoreUnavailable("away"), times=1_000)
    result = await finished(rig, stopping(worker, drain=False), 2.0)
    assert (result.unrecorded, result.exit_code) == (1, 1)


async def test_stop_while_the_store_hangs_is_bounded(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    worker = await rig.started()
    for operation in ("lease", "settle", "deregister", "extend", "rescue", "prune"):
        rig.faulty.doors[operation] = asyncio.Event()
    await rig.enqueue("quick")
    await rig.pass_time(1)
    await finished(rig, stopping(worker, timeout=1.0), 3.0)


async def test_loops_that_do_not_end_in_time_leave_no_error_behind(rig: Rig) -> None:
    """Nobody is there any more who could be told of it."""
    told = list[str]()
    running = asyncio.get_running_loop()
    running.set_exception_handler(lambda _, context: told.append(context["message"]))

    class Deaf:
        async def stop(self) -> None:
            await asyncio.Event().wait()

    worker = await rig.started()
    leaving = asyncio.ensure_future(worker._stopper.leave(cast("Any", [Deaf()])))
    while not leaving.done():
        await rig.pass_time(0.1, step=0.1)
    await breathe()
    del leaving
    gc.collect()
    running.set_exception_handler(None)
    assert told == []


async def test_jobs_that_an_answer_on_its_way_brings_are_given_back(rig: Rig) -> None:
    async def never() -> None:
        raise AssertionError("it ran")

    rig.task(never)
    worker = await rig.started()
    await breathe()
    gate = rig.faulty.doors["lease"] = asyncio.Event()
    job = await rig.enqueue("never")
    await breathe()
    stop = stopping(worker, timeout=5.0)
    await breathe()
    gate.set()
    result = await finished(rig, stop, 1.0)
    record = await rig.record(job)
    assert result.drained
    assert (record.state, record.attempt, record.losses) == (JobState.QUEUED, 1, 0)


async def test_second_stop_makes_it_sooner(rig: Rig) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    rig.task(slow)
    await rig.enqueue("slow")
    worker = await rig.started()
    await breathe()
    first = stopping(worker, timeout=1_000.0)
    await rig.pass_time(5)
    second = stopping(worker, drain=False)
    results = [await finished(rig, stop, 2.0) for stop in (second, first)]
    assert results[0] == results[1]
    assert await worker.stop() == results[0]


async def test_stop_from_a_handler_does_not_wait_for_itself(rig: Rig) -> None:
    async def last() -> str:
        await worker.stop()
        return "done"

    rig.task(last)
    job = await rig.enqueue("last")
    worker = rig.worker()
    await worker.start()
    await until(lambda: bool(rig.ended))
    assert await rig.state(job) is JobState.SUCCEEDED
    assert (await finished(rig, stopping(worker), 1.0)).drained


async def test_stop_before_start(rig: Rig) -> None:
    worker = rig.worker()
    assert await worker.stop() == Stopped()
    with pytest.raises(AppClosed):
        await worker.start()


async def test_stop_while_it_starts_leaves_nothing_running(rig: Rig) -> None:
    """Case G5: the store is asked to register it, and meanwhile it is stopped."""
    worker = rig.worker()
    gate = rig.faulty.doors["register"] = asyncio.Event()
    start = asyncio.ensure_future(worker.start())
    await breathe()
    stop = stopping(worker)
    await finished(rig, stop, 2.0)
    gate.set()
    with pytest.raises(AppClosed):
        await start
    await breathe()
    assert all(one.gone_at for one in await rig.store.workers())
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert [name for name in names if "offpath loop" in name] == []


async def test_a_start_that_was_cancelled_can_be_repeated(rig: Rig) -> None:
    async def work() -> str:
        return "done"

    rig.task(work)
    job = await rig.enqueue("work")
    worker = rig.worker()
    gate = rig.faulty.doors["register"] = asyncio.Event()
    start = asyncio.ensure_future(worker.start())
    await breathe()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    gate.set()
    await worker.start()
    await breathe()
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_start_is_idempotent(rig: Rig) -> None:
    worker = await rig.started()
    await worker.start()
    assert len(await rig.store.workers()) == 1


async def test_active_shows_what_is_held(rig: Rig) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    worker = await rig.started()
    await breathe()
    (active,) = worker.active()
    assert (active.id, active.task, active.attempt) == (job, "slow", 1)
    assert (active.stage, active.since) == (Stage.RUNNING, rig.clock.now())
    gate.set()
    await breathe()
    assert worker.active() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_drains_and_a_second_one_aborts(rig: Rig, number: signal.Signals) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    worker = rig.worker()
    before = signal.getsignal(number)
    run = asyncio.ensure_future(worker.run(signals=True))
    await until(lambda: bool(worker.active()))
    os.kill(os.getpid(), number)
    await until(lambda: "stopping" in repr(worker))
    await rig.pass_time(5)
    assert not run.done()
    assert await worker._engine.claimer.step() == Turn(verdict=Verdict.EMPTY)
    os.kill(os.getpid(), number)
    await breathe()
    result = await finished(rig, run, 2.0)
    assert not result.drained
    assert await rig.state(job) is JobState.QUEUED
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_it_registers_stops_it(rig: Rig, number: signal.Signals) -> None:
    worker = rig.worker()
    rig.faulty.doors["register"] = asyncio.Event()
    run = asyncio.ensure_future(worker.run(signals=True))
    await until(lambda: "register" in rig.faulty.calls)
    os.kill(os.getpid(), number)
    await until(lambda: "stop" in repr(worker))
    rig.faulty.doors["register"].set()
    assert (await finished(rig, run, 2.0)).drained
    assert [one.gone_at is not None for one in await rig.memory.workers()] == [True]


async def test_what_an_answer_on_its_way_brings_to_an_aborting_worker_is_given_back(
    rig: Rig,
) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    rig.task(slow)
    worker = rig.worker()
    await worker.start()
    door = rig.faulty.doors["lease"] = asyncio.Event()
    job = await rig.enqueue("slow")
    asked = len(rig.faulty.calls)
    await until(lambda: "lease" in rig.faulty.calls[asked:])
    stop = asyncio.ensure_future(worker.stop(drain=False))
    for _ in range(20):
        await breathe()
    assert "deregister" not in rig.faulty.calls
    door.set()
    assert (await finished(rig, stop, 2.0)).given_up == 0
    assert await rig.state(job) is JobState.QUEUED


async def test_a_signal_before_it_begins_leaves_nothing_to_run(rig: Rig) -> None:
    worker = rig.worker()
    told = StopSignals(worker)
    with told.caught():
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: "stop" in repr(worker))
        assert await told.start() is False
    assert not await rig.memory.workers()


async def test_a_signal_between_start_and_run_stops_it(rig: Rig) -> None:
    worker = rig.worker()
    told = StopSignals(worker)
    with told.caught():
        await told.start()
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: "stop" in repr(worker))
        assert (await finished(rig, asyncio.ensure_future(worker.run()), 2.0)).drained


async def test_cancelled_run_aborts_the_worker(rig: Rig) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    worker = rig.worker()
    run = asyncio.ensure_future(worker.run())
    await until(lambda: bool(worker.active()))
    run.cancel()
    await breathe()
    assert run.cancelled()
    assert await rig.state(job) is JobState.QUEUED


async def test_a_stop_waits_for_an_answer_that_brings_nothing_no_longer_than_it_takes(
    rig: Rig,
) -> None:
    """It is the last thing the stop waits for, and no job tells of its end."""

    async def never() -> None:
        raise AssertionError("it ran")

    rig.task(never)
    door = rig.faulty.doors["lease"] = asyncio.Event()
    worker = await rig.started()
    await until(lambda: "lease" in rig.faulty.calls)
    stop = stopping(worker, timeout=60.0)
    await breathe()
    assert not stop.done(), "the answer may bring jobs"
    door.set()
    await until(stop.done)  # and no time passes
    assert stop.result() == Stopped(drained=True)
