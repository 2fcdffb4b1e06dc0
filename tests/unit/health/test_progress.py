"""Nothing is green unless work moves, and nothing is red while it does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from offpath.errors import StoreUnavailable
from offpath.jobs.worker.loops import LoopHung
from offpath.model.health import Condition
from offpath.model.job import JobState
from offpath.model.tally import Turn, Verdict
from offpath.runtime.loop import LoopDied, LoopSpec
from offpath.runtime.loop_status import LoopState
from tests.unit.health.world import loop_of, red, report_of, started
from tests.unit.jobs.worker.rig import Rig, breathe

OWN = (
    *("limits", "settle", "progress", "heartbeat", "signals", "keep"),
    *("claim", "admission", "rescue", "group_check", "prune", "count", "idle"),
)


class Killed(BaseException):
    """The error that ends a task for good: not an Exception."""


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    await made.memory.open()
    yield made
    await made.close()


async def quick() -> None:
    return None


# -- false green -----------------------------------------------------------------------------------


async def test_a_frozen_claim_is_red_within_its_window_and_named(rig: Rig) -> None:
    rig.task(quick)
    worker = await started(rig)
    await rig.pass_time(5)
    assert worker.report().ready
    rig.faulty.doors["lease"] = asyncio.Event()
    jobs = [await rig.enqueue("quick") for _ in range(100)]
    await rig.pass_time(61, step=1)
    assert red(worker) == {"claim"}
    (reason,) = worker.report().reasons
    assert reason.startswith("loop claim: no success for 61 s: LoopHung: one turn of claim took")
    assert not worker.report().ready
    rig.faulty.doors.pop("lease").set()
    await rig.pass_time(5)
    assert worker.report().ready
    assert {await rig.state(job) for job in jobs} == {JobState.SUCCEEDED}


async def test_a_turn_that_never_returns_is_cancelled_and_the_loop_goes_on(rig: Rig) -> None:
    rig.task(quick)
    worker = await started(rig)
    rig.faulty.doors["lease"] = asyncio.Event()
    await rig.enqueue("quick")
    await rig.pass_time(30, step=1)
    del rig.faulty.doors["lease"]  # what hangs already hangs for ever; the next call would answer
    assert report_of(worker, "claim").restarts == 0
    await rig.pass_time(35, step=1)
    assert report_of(worker, "claim").restarts == 1
    assert any(isinstance(error, LoopHung) for error, _ in rig.errors)
    assert worker.report().ready
    assert worker.counts.succeeded == 1


async def test_a_claim_that_raises_each_time_is_red_by_budget_and_by_freshness(rig: Rig) -> None:
    rig.task(quick)
    worker = await started(rig)
    await rig.pass_time(2)
    rig.faulty.fail("lease", StoreUnavailable("gone"), times=1_000_000)
    await rig.pass_time(1)
    assert not red(worker)
    await rig.pass_time(10)
    assert red(worker) == {"claim"}
    reason = report_of(worker, "claim").reason or ""
    assert reason.endswith("turns in a row failed: StoreUnavailable: gone")
    await rig.pass_time(60)
    patient = msgspec.structs.replace(loop_of(worker, "claim").status(), budget=1_000_000)
    assert patient.judged().condition is Condition.UNHEALTHY
    assert (patient.judged().reason or "").startswith("no success for 7")
    rig.faulty.heal()
    await rig.pass_time(5)
    assert worker.report().ready


@pytest.mark.parametrize(
    ("operation", "loop"),
    [
        ("rescue", "rescue"),
        ("undoing", "group_check"),
        ("prune", "prune"),
        ("backlog", "count"),
        ("extend", "heartbeat"),
        ("lease", "claim"),
    ],
)
async def test_a_statement_that_hangs_makes_its_loop_red_and_no_other(
    rig: Rig, operation: str, loop: str
) -> None:
    rig.task(quick)
    worker = await started(rig, {"lease_seconds": 300.0, "prune_every": 20.0})
    await rig.pass_time(2)
    rig.faulty.doors[operation] = asyncio.Event()
    await rig.pass_time(400 if loop == "heartbeat" else 90, step=1)
    # without a heartbeat the lease runs out, and then nobody may claim either
    assert red(worker) == ({"heartbeat", "claim"} if loop == "heartbeat" else {loop})


@pytest.mark.parametrize("name", OWN)
async def test_a_loop_that_is_killed_is_started_again_and_counted(rig: Rig, name: str) -> None:
    rig.task(quick)
    worker = await started(rig)
    await rig.pass_time(2)
    loop = loop_of(worker, name)
    step = loop._iteration

    async def die() -> None:
        loop._iteration = step
        raise Killed

    loop._iteration = die
    loop.wake()
    await rig.pass_time(2)
    assert loop.running
    report = report_of(worker, name)
    assert (report.restarts, report.condition) == (1, Condition.HEALTHY)
    counted = rig.metrics.get("offpath_loop_restarts_total", loop=name)
    assert counted is not None
    assert counted.value == 1
    assert any(isinstance(error, Killed) and phase == name for error, phase in rig.errors)
    job = await rig.enqueue("quick")
    await rig.pass_time(2)
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_a_loop_that_somebody_cancels_is_started_again(rig: Rig) -> None:
    worker = await started(rig)
    loop = loop_of(worker, "claim")
    assert loop._task is not None
    loop._task.cancel()
    await rig.pass_time(2)
    assert loop.running
    assert any(isinstance(error, LoopDied) for error, _ in rig.errors)
    assert report_of(worker, "claim").restarts == 1


async def test_a_loop_that_dies_each_time_is_red_and_restarted_slower_and_slower(
    rig: Rig,
) -> None:
    async def die() -> None:
        raise Killed

    worker = await started(rig, loops=(LoopSpec(name="mine", step=die, interval=1.0),))
    await rig.pass_time(20)
    report = report_of(worker, "mine")
    assert (report.condition, report.state) == (Condition.UNHEALTHY, LoopState.DEAD)
    assert 4 <= report.restarts <= 7
    assert not worker.report().ready


async def test_by_setting_a_dead_loop_ends_the_worker_with_a_code(rig: Rig) -> None:
    async def die() -> None:
        raise Killed

    spec = LoopSpec(name="mine", step=die, interval=1.0)
    worker = await started(rig, {"on_dead_loop": "exit"}, loops=(spec,))
    await rig.pass_time(1)
    stopped = await worker.run()  # it has stopped by itself: this only tells how
    assert (stopped.dead_loops, stopped.exit_code) == (("mine",), 1)


async def test_a_loop_that_never_began_is_not_ready_and_then_red(rig: Rig) -> None:
    worker = await started(rig)
    rig.faulty.doors["prune"] = asyncio.Event()
    late = await started(rig)
    assert worker.report().ready
    assert report_of(late, "prune").condition is Condition.STARTING
    assert not late.report().ready
    await rig.pass_time(181, step=1)
    reason = report_of(late, "prune").reason or ""
    assert reason.startswith("no success yet after 181 s")


async def test_a_worker_that_is_not_running_is_not_ready(rig: Rig) -> None:
    worker = rig.worker()
    assert worker.report().reasons == ("the worker has not started",)
    await worker.start()
    await breathe()
    assert worker.report().ready
    await worker.stop()
    assert worker.report().reasons[0] == "the worker has stopped"


# -- false red -------------------------------------------------------------------------------------


async def test_four_slots_with_ten_minute_jobs_are_healthy_all_the_time(rig: Rig) -> None:
    async def long() -> None:
        await rig.clock.sleep(600)

    rig.task(long)
    jobs = [await rig.enqueue("long") for _ in range(8)]
    worker = await started(rig, {"concurrency": 4})
    for _ in range(599):
        await rig.pass_time(1, step=1)
        assert worker.report().reasons == ()
    assert len(worker.active()) == 4
    assert worker.report().running == {"long": 4}
    await rig.pass_time(2, step=1)
    assert [await rig.state(job) for job in jobs].count(JobState.SUCCEEDED) == 4


@pytest.mark.timeout(180)
async def test_an_empty_queue_is_healthy_for_an_hour(rig: Rig) -> None:
    rig.task(quick)
    worker = await started(rig)
    for _ in range(3_600 // 5):
        await rig.pass_time(5, step=5)
        assert worker.report().reasons == ()


# -- loops that others ask for ---------------------------------------------------------------------


async def test_an_added_loop_is_driven_woken_by_hints_and_told_to_stop(rig: Rig) -> None:
    turns: list[float] = []
    told: list[float] = []

    async def step() -> Turn:
        turns.append(rig.clock.monotonic())
        return Turn(verdict=Verdict.EMPTY)

    async def stop(seconds: float) -> None:
        told.append(seconds)

    spec = LoopSpec(name="relay", step=step, interval=30.0, wakes=frozenset({"work"}), stop=stop)
    rig.task(quick)
    worker = await started(rig, {"drain_timeout": 7.0}, loops=(spec,))
    assert len(turns) == 1
    await rig.enqueue("quick")
    await breathe()
    assert len(turns) == 2
    await rig.pass_time(31, step=1)
    assert len(turns) == 3
    assert worker.report().ready
    assert (await worker.stop()).drained
    assert told == [7.0]


async def test_an_added_loop_that_hangs_does_not_hold_up_the_stop(rig: Rig) -> None:
    told: list[float] = []

    async def hang() -> None:
        await asyncio.Event().wait()

    async def stop(seconds: float) -> None:
        told.append(seconds)
        await asyncio.Event().wait()

    spec = LoopSpec(name="relay", step=hang, interval=30.0, stop=stop)
    worker = await started(rig, loops=(spec,))
    stopping = asyncio.create_task(worker.stop(timeout=5))
    before = rig.clock.monotonic()
    while not stopping.done():
        await rig.pass_time(0.1, step=0.1)
    assert rig.clock.monotonic() - before <= 7
    assert len(told) == 1


async def test_an_added_loop_may_take_its_time_and_is_red_but_not_cancelled(rig: Rig) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    spec = LoopSpec(name="sweep", step=slow, interval=1.0, window=10.0)
    worker = await started(rig, loops=(spec,))
    await rig.pass_time(20)
    assert red(worker) == {"sweep"}
    gate.set()
    await rig.pass_time(1)
    assert worker.report().ready
    assert report_of(worker, "sweep").restarts == 0


async def test_a_loop_that_is_not_critical_does_not_decide(rig: Rig) -> None:
    async def fail() -> None:
        raise ValueError

    spec = LoopSpec(name="extra", step=fail, interval=1.0, critical=False)
    worker = await started(rig, loops=(spec,))
    await rig.pass_time(20)
    assert red(worker) == {"extra"}
    assert worker.report().ready


async def test_degraded_turns_count_until_a_clean_one_and_are_logged_once_a_minute(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    verdicts = [Verdict.CLEAN, *[Verdict.DEGRADED] * 10, Verdict.EMPTY, Verdict.CLEAN]

    async def step() -> Turn:
        verdict = verdicts.pop(0) if len(verdicts) > 1 else verdicts[0]
        return Turn(verdict=verdict, counts={"sent": 2, "failed": 1}, cause="one did not go")

    spec = LoopSpec(name="relay", step=step, interval=10.0, budget=5)
    with caplog.at_level(logging.WARNING, "offpath.loop"):
        worker = await started(rig, loops=(spec,))
        await rig.pass_time(50, step=1)
        assert not red(worker)
        await rig.pass_time(10, step=1)
        assert red(worker) == {"relay"}
        await rig.pass_time(60, step=1)
        assert red(worker) == {"relay"}, "an empty turn is not an end of it, nor are two clean ones"
        await rig.pass_time(20, step=1)
        assert worker.report().ready
    lines = [record for record in caplog.records if record.name == "offpath.loop"]
    assert [record.getMessage() for record in lines] == [
        "loop relay degraded: one did not go",
        "loop relay degraded: one did not go (and 5 more like this)",
    ]
    assert vars(lines[0])["loop"] == "relay"
    assert vars(lines[0])["verdict"] == "degraded"
    assert vars(lines[0])["counts"] == {"sent": 2, "failed": 1}
    turns = loop_of(worker, "relay").status().outcomes
    assert (turns["empty"], turns["degraded"]) == (1, 10)
    counted = rig.metrics.get("offpath_loop_iterations_total", loop="relay", outcome="degraded")
    assert counted is not None
    assert counted.value == 10


# -- what is told ----------------------------------------------------------------------------------


async def test_each_heartbeat_carries_the_loops_and_what_runs(rig: Rig) -> None:
    async def long() -> None:
        await rig.clock.sleep(600)

    rig.task(long)
    await rig.enqueue("long")
    await started(rig)
    await rig.pass_time(11)
    (record,) = await rig.memory.workers()
    report: Any = msgspec.json.decode(record.report or "")
    assert report["running"] == {"long": 1}
    assert set(OWN) == {loop["name"] for loop in report["loops"]}


async def test_gauges_follow_the_loops_and_go_to_zero_with_the_worker(rig: Rig) -> None:
    def read(name: str) -> float:
        found = rig.metrics.get(f"offpath_{name}", loop="claim")
        assert found is not None
        return found.value

    rig.task(quick)
    worker = await started(rig)
    await rig.pass_time(3)
    assert (read("loop_healthy"), read("loop_consecutive_failures")) == (1, 0)
    rig.faulty.fail("lease", RuntimeError("no"), times=1_000_000)
    await rig.pass_time(20)
    assert read("loop_healthy") == 0
    assert read("loop_consecutive_failures") > 3
    assert read("loop_last_success_age_seconds") > 15
    assert read("loop_iteration_seconds") > 0
    stopping = asyncio.create_task(worker.stop())
    while not stopping.done():
        await rig.pass_time(0.5)
    assert read("loop_consecutive_failures") == read("loop_last_success_age_seconds") == 0
