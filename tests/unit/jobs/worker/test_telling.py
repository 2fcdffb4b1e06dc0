"""Progress, events, metrics, logs: what is told, and to whom."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from offpath.errors import InvalidArgument, Snooze
from offpath.jobs.client.hooks import Hooks, Reporter
from offpath.model.effects import Effects
from offpath.model.event import EventKind, JobEvent
from offpath.model.job import JobFilter, JobState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive
from offpath.store.telemetry.meter import Telemetry
from tests.unit.jobs.worker.rig import Rig, breathe


async def test_progress_is_written_once_a_second_and_the_last_wins(rig: Rig) -> None:
    gate = asyncio.Event()

    async def busy(ctx: Any) -> None:
        for n in range(100):
            await ctx.progress(n, 100, f"step {n}")
            await asyncio.sleep(0)
        await gate.wait()
        ctx.progress(100, 100)

    rig.task(busy)
    job = await rig.enqueue("busy")
    await rig.started()
    await breathe(200)
    await rig.pass_time(1.5)
    assert rig.faulty.calls.count("progress") == 2
    assert '"done":99' in ((await rig.record(job)).progress or "")
    gate.set()
    await breathe()
    assert '"done":100' in ((await rig.record(job)).progress or "")
    assert EventKind.PROGRESS in rig.kinds(job)


async def test_progress_from_a_thread(rig: Rig) -> None:
    def busy(ctx: Any) -> None:
        ctx.progress(5, 10, "half \x00 way")
        with pytest.raises(InvalidArgument):
            ctx.progress(float("nan"))

    rig.task(busy)
    job = await rig.enqueue("busy")
    await rig.run()
    assert '"done":5' in ((await rig.record(job)).progress or "")


async def test_claim_is_held_by_the_job_through_its_attempts(rig: Rig) -> None:
    claims: list[bool] = []

    async def once(ctx: Any) -> None:
        claims.append(await ctx.claim("the key"))
        if ctx.attempt == 1:
            raise ValueError

    rig.task(once)
    await rig.enqueue("once", base=0.0)
    await rig.run()
    await rig.enqueue("once", base=0.0, attempts=1)
    await rig.run()
    assert claims == [True, True, False]


async def test_states_of_other_jobs(rig: Rig) -> None:
    seen: list[Any] = []

    async def look(ctx: Any) -> None:
        seen.append(await ctx.states([ctx.id, "unknown"]))

    rig.task(look)
    job = await rig.enqueue("look")
    await rig.run()
    assert seen == [{job: JobState.RUNNING}]


async def test_nothing_joins_an_attempt_that_has_ended(rig: Rig) -> None:
    contexts: list[Any] = []

    async def keeps(ctx: Any) -> None:
        contexts.append(ctx)

    rig.task(keeps)
    await rig.enqueue("keeps")
    await rig.run()
    with pytest.raises(InvalidArgument, match="has ended"):
        contexts[0].enqueue(rig.job("keeps"))


async def test_logger_carries_the_job_and_the_log_context_but_no_arguments(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="offpath")

    async def talks(ctx: Any, customer: str, password: str) -> None:
        ctx.logger.info("hello")

    rig.task(talks, log_context=lambda customer, password: {"customer": customer})
    job = await rig.enqueue("talks", '{"customer":"c-1","password":"hunter2"}')
    await rig.run()
    (record,) = [each for each in caplog.records if each.message == "hello"]
    fields = vars(record)
    assert (fields["job_id"], fields["attempt"], fields["customer"]) == (job, 1, "c-1")
    assert all("hunter2" not in str(vars(each)) for each in caplog.records)


async def test_broken_log_context_disturbs_nothing(rig: Rig) -> None:
    async def talks() -> None:
        return None

    rig.task(talks, log_context=lambda: 1 / 0)
    job = await rig.enqueue("talks")
    await rig.run()
    assert await rig.state(job) is JobState.SUCCEEDED
    assert "log_context" in rig.phases()


# -- hooks ------------------------------------------------------------------------------------


async def test_hooks_that_raise_or_hang_disturb_nothing(rig: Rig) -> None:
    own: list[EventKind] = []

    def raising(event: JobEvent) -> None:
        own.append(event.kind)
        raise ZeroDivisionError

    async def hangs(_event: JobEvent) -> None:
        await asyncio.Event().wait()

    async def quick() -> None:
        return None

    rig.task(quick, name="raises", on_event=raising)
    rig.task(quick, name="hangs", on_event=hangs)
    jobs = [await rig.enqueue("raises"), await rig.enqueue("hangs")]
    await rig.run()
    assert [await rig.state(job) for job in jobs] == [JobState.SUCCEEDED] * 2
    assert own[0] is EventKind.QUEUED
    assert "hook" in rig.phases()


async def test_async_hooks_keep_the_order_app_first(rig: Rig) -> None:
    told: list[tuple[str, EventKind]] = []

    async def of_app(event: JobEvent) -> None:
        await asyncio.sleep(0)
        told.append(("app", event.kind))

    def of_task(event: JobEvent) -> None:
        told.append(("task", event.kind))

    async def quick() -> None:
        return None

    rig.task(quick, on_event=of_task)
    hooks = Hooks(rig.report, of_app, rig.tasks)
    rig.store._telemetry = Telemetry(rig.clock, rig.store._meter, [hooks])
    await rig.enqueue("quick")
    await rig.run()
    await hooks.flush()
    kinds = [EventKind.QUEUED, EventKind.STARTED, EventKind.SUCCEEDED, EventKind.GROUP_DONE]
    assert told == [(whose, kind) for kind in kinds for whose in ("app", "task")]


async def test_on_error_may_be_async_and_may_raise() -> None:
    told: list[str] = []

    async def on_error(error: BaseException, phase: str) -> None:
        told.append(f"{phase}: {error}")
        raise ValueError("about the error")

    def broken(_error: BaseException, _phase: str) -> None:
        raise ValueError("about the error")

    Reporter(on_error, ManualClock())(KeyError("x"), "settle")
    Reporter(broken, ManualClock())(KeyError("x"), "settle")
    await breathe()
    assert told == ["settle: 'x'"]


async def test_foreign_error_texts_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="offpath")
    Reporter(None, ManualClock())(ValueError("card 4111"), "classify")
    assert [record.message for record in caplog.records] == ["classify: ValueError"]


# -- metrics ----------------------------------------------------------------------------------


def rows_by_metrics(rig: Rig) -> Counter[str]:
    """For each state: what entered it less what left it."""
    rows: Counter[str] = Counter()
    for reading in rig.metrics.list("offpath_job_moves_total"):
        rows[reading.labels["entered"]] += int(reading.value)
        rows[reading.labels["left"]] -= int(reading.value)
    del rows["none"]
    return +rows


async def test_for_each_state_entered_less_left_is_what_is_there(rig: Rig) -> None:
    """Q2: every transition is driven, rescue, expiry, redrive and operator's acts included."""

    async def ok(ctx: Any) -> None:
        if ctx.attempt == 1 and ctx.deliveries == 1:
            ctx.enqueue(rig.job("dies"))

    async def dies() -> None:
        raise ValueError

    async def snoozes() -> None:
        raise Snooze(1_000)

    async def hangs() -> None:
        await asyncio.Event().wait()

    for handler in (ok, dies, snoozes, hangs):
        rig.task(handler)
    for _ in range(3):
        await rig.enqueue("ok")
    dead = await rig.enqueue("dies", attempts=1)
    await rig.enqueue("dies", attempts=2)
    await rig.enqueue("snoozes")
    await rig.enqueue("ok", deadline_in=5.0, delay=10.0)
    gone = await rig.enqueue("ok", delay=1_000.0)
    held = [await rig.enqueue("hangs") for _ in range(3)]
    repeat = rig.new("ok", delay=2_000.0)
    for _ in range(2):
        await rig.store.commit(Effects(jobs=(repeat,)))
    first = await rig.started(lease_seconds=2.0)
    await rig.store.cancel([gone, held[0]])
    await rig.pass_time(12)
    for loop in first._loops.values():
        await loop.stop()
    second = await rig.started(lease_seconds=2.0)
    await rig.pass_time(4)
    stop = asyncio.ensure_future(second.stop(drain=False))
    await rig.pass_time(2)
    await stop
    await rig.store.redrive([JobRedrive(id=dead, delay=5.0)])
    await rig.store.delete([gone])
    counts = await rig.memory.count(JobFilter())
    truth: Counter[str] = Counter()
    for row in counts:
        truth[row.state] += row.count
    assert rows_by_metrics(rig) == truth
    assert {JobState.SUCCEEDED, JobState.DEAD, JobState.QUEUED, JobState.CANCELLED} <= set(truth)
    for name in ("rescued", "released", "redriven", "expired", "snoozed", "retried", "deleted"):
        total = sum(each.value for each in rig.metrics.list(f"offpath_jobs_{name}_total"))
        assert total > 0, name


async def test_times_and_gauges(rig: Rig) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    rig.task(slow)
    labels = {"task": "slow", "queue": "default"}
    await rig.enqueue("slow")
    await rig.pass_time(3)
    await rig.started()
    reading = rig.metrics.get("offpath_jobs_running", **labels)
    assert reading is not None
    assert reading.value == 1
    await rig.pass_time(4)
    gate.set()
    await breathe()
    totals = {
        name: rig.metrics.get(f"offpath_job_{name}", task="slow")
        for name in ("wait_seconds", "total_seconds", "success_seconds", "attempts")
    }
    assert {name: each and each.total for name, each in totals.items()} == {
        "wait_seconds": 3.0,
        "total_seconds": 7.0,
        "success_seconds": 4.0,
        "attempts": 1.0,
    }
    for name, value in (("jobs_running", 0), ("jobs_active", 0), ("jobs_peak_active", 1)):
        reading = rig.metrics.get(f"offpath_{name}", **labels)
        assert reading is not None
        assert reading.value == value
    operations = {
        each.labels["operation"] for each in rig.metrics.list("offpath_store_operation_seconds")
    }
    assert {"commit", "lease", "settle", "register"} <= operations
