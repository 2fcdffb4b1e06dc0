"""Workers that take no jobs for a while: told to, or because too many attempts fail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from offpath.errors import Abort, CoolDown, InvalidArgument, Snooze
from offpath.jobs.values.offers import WorkerLoad
from offpath.jobs.worker.backpressure import AdaptiveDelay
from offpath.model.job import JobState
from tests.unit.jobs.worker.rig import Rig, breathe


class Valve:
    """A hook that answers what the test says, and counts how often it is asked."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.loads: list[WorkerLoad] = []

    def __call__(self, load: WorkerLoad) -> Any:
        self.loads.append(load)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def fine() -> None: ...


async def test_a28_115_nothing_is_taken_while_the_hook_says_so(rig: Rig) -> None:
    rig.task(fine)
    valve = Valve(30.0)
    await rig.started(backpressure=valve)
    job = await rig.enqueue("fine")
    await rig.pass_time(40)
    assert await rig.state(job) is JobState.QUEUED
    valve.answer = None
    await rig.pass_time(21)
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_the_hook_is_not_asked_during_a_pause(rig: Rig) -> None:
    rig.task(fine)
    valve = Valve(30.0)
    await rig.started(backpressure=valve)
    for _ in range(20):
        await rig.enqueue("fine")
        await rig.pass_time(1)
    assert len(valve.loads) == 1
    assert "lease" not in rig.faulty.calls


@pytest.mark.parametrize("answer", [None, 0, 0.0, -5, timedelta(0)])
async def test_a28_116_an_answer_without_a_pause_goes_on(rig: Rig, answer: Any) -> None:
    rig.task(fine)
    await rig.started(backpressure=Valve(answer))
    job = await rig.enqueue("fine")
    await breathe()
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_the_hook_may_be_async_and_may_give_a_timedelta(rig: Rig) -> None:
    rig.task(fine)
    answers: list[timedelta | None] = [timedelta(seconds=5), None]

    async def hook(_: WorkerLoad) -> timedelta | None:
        return answers.pop(0) if answers else None

    await rig.started(backpressure=hook)
    job = await rig.enqueue("fine")
    await rig.pass_time(4)
    assert await rig.state(job) is JobState.QUEUED
    await rig.pass_time(2)
    assert await rig.state(job) is JobState.SUCCEEDED


@pytest.mark.parametrize("answer", [OSError("no answer"), "5", float("nan"), float("inf"), True])
async def test_a28_117_a_failing_hook_is_reported_and_the_worker_goes_on(
    rig: Rig, answer: Any
) -> None:
    rig.task(fine)
    valve = Valve(answer)
    worker = await rig.started(backpressure=valve)
    job = await rig.enqueue("fine")
    await rig.pass_time(10)
    assert set(rig.phases()) == {"backpressure"}
    assert 3 <= len(valve.loads) <= 8  # with a growing pause in between
    assert await rig.state(job) is JobState.QUEUED
    valve.answer = None
    await rig.pass_time(5)
    assert await rig.state(job) is JobState.SUCCEEDED
    assert all(loop.healthy for loop in worker.health() if loop.critical)


async def test_the_hook_is_told_what_ended_and_what_runs(rig: Rig) -> None:
    async def failing() -> None:
        raise OSError

    async def limited() -> None:
        raise CoolDown(5)

    async def patient() -> None:
        raise Snooze(5)

    async def final() -> None:
        raise Abort

    for fn in (fine, failing, limited, patient, final):
        rig.task(fn)
        await rig.enqueue(fn.__name__)
    late = await rig.enqueue("fine", deadline_in=0.5)
    rig.clock.advance(1)
    valve = Valve()
    worker = await rig.started(backpressure=valve, concurrency=7)
    await rig.pass_time(0.5)
    await rig.enqueue("fine")
    await breathe()
    load = valve.loads[-1]
    assert (load.worker, load.slots, load.active) == (worker.id, 7, 0)
    assert dict(load.succeeded) == {"fine": 2}
    assert dict(load.failed) == {"failing": 1, "limited": 1, "final": 1, "fine": 1}
    assert await rig.state(late) is JobState.DEAD


async def test_running_all_that_is_due_asks_nobody(rig: Rig) -> None:
    rig.task(fine)
    job = await rig.enqueue("fine")
    await rig.run(backpressure=Valve(1_000.0))
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_a_paused_worker_stops_at_once(rig: Rig) -> None:
    rig.task(fine)
    worker = await rig.started(backpressure=Valve(1_000.0))
    await rig.enqueue("fine")
    assert (await worker.stop()).drained


# -- the adaptive delay: A.10's numbers --------------------------------------------------------


def delays(delay: AdaptiveDelay, *counts: tuple[int, int]) -> list[float]:
    return [delay.look(succeeded, failed) for succeeded, failed in counts]


def test_a28_118_without_failures_there_is_no_delay() -> None:
    assert delays(AdaptiveDelay(), (0, 0), (5, 0), (9, 0)) == [0, 0, 0]


def test_a28_119_failures_multiply_it_and_successes_shrink_it() -> None:
    delay = AdaptiveDelay(base=100, factor=2, step=100, max=1_000)
    counts = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (2, 3), (3, 3), (4, 3)]
    assert delays(delay, *counts) == [0, 100, 200, 400, 300, 200, 100, 0]


def test_a28_120_it_is_never_more_than_max() -> None:
    delay = AdaptiveDelay(base=100, factor=10, max=500)
    assert delays(delay, (0, 0), (0, 1), (0, 2), (0, 3)) == [0, 100, 500, 500]


def test_a28_121_it_is_never_less_than_min() -> None:
    delay = AdaptiveDelay(base=100, min=50, step=30, max=1_000)
    assert delays(delay, (0, 0), (0, 1), (1, 1), (2, 1)) == [50, 100, 70, 50]


def test_a28_122_a_few_failures_may_be_tolerated() -> None:
    delay = AdaptiveDelay(base=100, max=1_000, max_fail_rate=0.5)
    assert delays(delay, (9, 1), (9, 11)) == [0, 100]


def load(at: float, ok: dict[str, int], failed: dict[str, int]) -> WorkerLoad:
    return WorkerLoad(worker="w", at=at, active=0, slots=1, succeeded=ok, failed=failed)


@pytest.mark.parametrize("tasks", ["mine", ["mine"]])
def test_a28_123_only_the_watched_task_counts(tasks: Any) -> None:
    delay = AdaptiveDelay(base=100, max=1_000, task=tasks)
    delay(load(0, {}, {"other": 5}))
    assert delay.delay == 0
    delay(load(1, {}, {"other": 9, "mine": 1}))
    assert delay.delay == 100


def test_a28_124_a_watched_task_that_never_ran_is_no_failure() -> None:
    delay = AdaptiveDelay(base=100, max=1_000, task="absent")
    assert [delay(load(at, {"a": at}, {"a": at})) for at in range(5)] == [0] * 5


def test_its_pace_depends_on_time_and_not_on_how_often_it_is_asked() -> None:
    def seen(times_a_second: int) -> list[float]:
        delay, found = AdaptiveDelay(base=1, step=1, max=16), []
        for tick in range(200 * times_a_second):
            now = tick / times_a_second
            delay(load(now, {"a": int(now)}, {"a": int(min(now, 40))}))  # it fails for 40 s
            if tick % times_a_second == 0:
                found.append(delay.delay)
        return found

    often, seldom = seen(100), seen(1)
    assert max(often) == max(seldom) == 16
    assert often.index(16) == pytest.approx(seldom.index(16), abs=5)
    over = [found.index(0, found.index(16)) for found in (often, seldom)]
    assert over[0] == pytest.approx(over[1], abs=17)  # one lease at the longest delay


def test_leases_are_that_far_apart_also_at_min() -> None:
    delay = AdaptiveDelay(min=5, max=10)
    waits = [delay(load(at, {}, {})) for at in (0, 1, 4.5, 5, 6)]
    assert waits == [0, 4, 0.5, 0, 4]


def test_the_counts_of_another_worker_start_anew() -> None:
    delay = AdaptiveDelay(base=100, max=1_000)
    assert delays(delay, (5, 50), (3, 0), (3, 1)) == [100, 0, 100]


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": 0},
        {"base": -1},
        {"factor": 0.5},
        {"step": 0},
        {"max": float("inf")},
        {"min": 5, "max": 1},
        {"max_fail_rate": 1},
        {"max_fail_rate": -0.1},
        {"every": 0},
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        AdaptiveDelay(**wrong)


async def test_retries_slow_a_worker_down_and_successes_let_it_go(rig: Rig) -> None:
    broken = True
    runs: list[float] = []

    async def calling() -> None:
        runs.append(rig.clock.monotonic())
        if broken:
            raise OSError

    rig.task(calling)
    delay = AdaptiveDelay(base=1.0, max=8.0)
    await rig.started(backpressure=delay, concurrency=1)
    for _ in range(30):
        await rig.enqueue("calling", attempts=20, base=0.1)
    await rig.pass_time(60)
    assert delay.delay == 8.0
    slowly = len(runs)
    assert len([at for at in runs if at - runs[0] > 1]) < 20
    broken = False
    await rig.pass_time(60)
    assert delay.delay < 8.0
    assert len(runs) - slowly >= 15
