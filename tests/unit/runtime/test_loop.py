import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from offpath.model.health import Condition
from offpath.model.tally import Turn, Verdict
from offpath.runtime.clock import ManualClock
from offpath.runtime.loop import Loop
from offpath.runtime.loop_status import LoopState
from offpath.runtime.pace import Pace
from offpath.runtime.tasks import Tasks, reporter

PACE = Pace(interval=10, first_backoff=1, longest_backoff=4, jitter=0)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class World:
    """A loop over a scripted iteration, with everything it reported."""

    def __init__(
        self, turn: Callable[[int], Awaitable[Turn | bool | float | None]], pace: Pace = PACE
    ) -> None:
        self.clock = ManualClock()
        self.reported: list[tuple[str, str]] = []
        self.turns = 0
        self._turn = turn
        self.loop = Loop(
            "poll",
            self._iterate,
            clock=self.clock,
            pace=pace,
            report=lambda error, phase: self.reported.append((repr(error), phase)),
            chance=lambda: 1.0,
        )

    async def _iterate(self) -> Turn | bool | float | None:
        self.turns += 1
        return await self._turn(self.turns)


async def nothing(_: int) -> None:
    return None


async def failing(turn: int) -> None:
    raise ValueError(turn)


async def test_a_turn_at_once_then_by_interval_or_wake() -> None:
    world = World(nothing)
    assert world.loop.status().state is LoopState.NEW
    world.loop.start()
    world.loop.start()
    await settle()
    assert world.turns == 1
    assert world.loop.status().state is LoopState.RESTING
    world.clock.advance(9)
    await settle()
    assert world.turns == 1
    world.clock.advance(1)
    await settle()
    assert world.turns == 2
    world.loop.wake()
    await settle()
    assert world.turns == 3
    assert await world.loop.stop()
    assert world.loop.status().state is LoopState.STOPPED
    assert not world.loop.running


async def test_a_wake_during_a_turn_gives_another_turn() -> None:
    gate = asyncio.Event()

    async def held(turn: int) -> None:
        if turn == 1:
            await gate.wait()

    world = World(held)
    world.loop.start()
    await settle()
    world.loop.wake()
    gate.set()
    await settle()
    assert world.turns == 2
    await world.loop.stop()


async def test_a_turn_can_ask_for_more_or_for_a_time() -> None:
    async def turn(number: int) -> bool | float:
        return True if number < 5 else 3.0

    world = World(turn)
    world.loop.start()
    await settle()
    assert world.turns == 5
    assert world.clock.next_due() == 3
    await world.loop.stop()


async def test_a_loop_that_always_has_more_lets_others_run() -> None:
    async def more(_: int) -> bool:
        return True

    world = World(more)
    world.loop.start()
    await settle()
    assert 1 < world.turns < 20
    await world.loop.stop()


async def test_a_failing_loop_waits_longer_and_longer_and_is_not_woken() -> None:
    world = World(failing)
    world.loop.start()
    await settle()
    waits = []
    for _ in range(4):
        world.loop.wake()
        await settle()
        waits.append(world.clock.next_due())
        world.clock.advance(waits[-1] or 0)
        await settle()
    assert waits == [1, 2, 4, 4]
    assert world.turns == 5
    assert world.reported[0] == ("ValueError(1)", "poll")
    status = world.loop.status()
    assert (status.state, status.consecutive_failures) == (LoopState.FAILING, 5)
    assert (status.last_error, status.last_success) == ("ValueError", None)
    await world.loop.stop()


async def test_a_turn_that_says_it_failed_waits_as_one_that_raises() -> None:
    async def turn(_: int) -> Turn:
        return Turn(verdict=Verdict.FAILED, again=True, cause="nothing went")

    world = World(turn)
    world.loop.start()
    await settle()
    waits = []
    for _ in range(4):
        world.loop.wake()
        await settle()
        waits.append(world.clock.next_due())
        world.clock.advance(waits[-1] or 0)
        await settle()
    assert waits == [1, 2, 4, 4]
    status = world.loop.status()
    assert (status.state, status.consecutive_failures) == (LoopState.FAILING, 5)
    assert (status.cause, status.outcomes["failed"]) == ("nothing went", 5)
    assert status.judged().reason == "5 turns in a row failed: nothing went"
    await world.loop.stop()


async def test_a_degraded_turn_goes_on_as_it_asked_and_counts() -> None:
    async def turn(number: int) -> Turn:
        verdict = Verdict.DEGRADED if number < 4 else Verdict.EMPTY
        return Turn(verdict=verdict, again=2.0)

    world = World(turn)
    world.loop.start()
    await settle()
    for failures in (1, 2, 3, 0):
        assert world.loop.status().consecutive_failures == failures
        assert world.clock.next_due() == 2
        world.clock.advance(2)
        await settle()
    assert world.loop.status().judged().healthy
    await world.loop.stop()


async def test_ages_are_those_of_who_looks() -> None:
    gate = asyncio.Event()

    async def turn(number: int) -> None:
        if number > 1:
            await gate.wait()

    world = World(turn)
    world.clock.advance(7)
    fresh = world.loop.status()
    assert (fresh.success_age, fresh.waited, fresh.working_for) == (None, 7, None)
    assert fresh.judged().condition is Condition.STARTING
    world.loop.start()
    await settle()
    world.clock.advance(10)
    await settle()
    world.clock.advance(51)
    hung = world.loop.status()
    assert (hung.success_age, hung.waited, hung.working_for) == (61, 61, 51)
    assert hung.judged().condition is Condition.UNHEALTHY
    assert hung.judged().reason == "no success for 61 s, in one turn for 51 s"
    gate.set()
    await settle()
    assert world.loop.status().judged().healthy
    await world.loop.stop()


async def test_a_loop_says_when_its_next_turn_is_and_why_the_last_did_nothing() -> None:
    turns = [Turn(skipped="another worker leads it", again=2.0), Turn(again=3.0)]
    gate = asyncio.Event()

    async def turn(number: int) -> Turn:
        if number <= len(turns):
            return turns[number - 1]
        await gate.wait()
        raise ValueError

    world = World(turn)
    assert (world.loop.status().next_in, world.loop.status().skipped) == (None, None)
    world.loop.start()
    await settle()
    told = world.loop.status().judged()
    assert (told.next_in, told.skipped) == (2.0, "another worker leads it")
    world.clock.advance(2)
    await settle()
    world.clock.advance(1)
    told = world.loop.status().judged()
    assert (told.next_in, told.skipped) == (2.0, None)
    world.clock.advance(2)
    await settle()
    assert world.loop.status().next_in is None  # it works
    gate.set()
    await settle()
    assert (world.loop.status().next_in or 0) > 0  # it waits after a failure
    await world.loop.stop()


async def test_a_dead_loop_is_due_again_at_once_and_then_later_and_later() -> None:
    class Killed(BaseException):
        pass

    async def turn(_: int) -> None:
        raise Killed

    world = World(turn)
    waits = []
    for _ in range(7):
        world.loop.start()
        await settle()
        waits.append(world.loop.revival)
    assert waits == [0, 1, 2, 4, 8, 16, 30]
    status = world.loop.status()
    assert (status.state, status.deaths) == (LoopState.DEAD, 7)
    assert status.judged().condition is Condition.UNHEALTHY
    assert not world.loop.running


async def test_success_ends_the_backoff() -> None:
    async def turn(number: int) -> None:
        if number in {1, 2, 4}:
            raise OSError

    world = World(turn)
    world.loop.start()
    await settle()
    world.clock.advance(1)
    await settle()
    world.clock.advance(2)
    await settle()
    assert world.loop.status().consecutive_failures == 0
    assert world.loop.status().last_success == world.clock.now()
    world.loop.wake()
    await settle()
    assert world.clock.next_due() == 1
    await world.loop.stop()


async def test_a_stray_cancellation_is_a_failure_not_the_end() -> None:
    async def turn(number: int) -> None:
        if number == 1:
            raise asyncio.CancelledError

    world = World(turn)
    world.loop.start()
    await settle()
    assert world.loop.running
    world.clock.advance(1)
    await settle()
    assert world.turns == 2
    await world.loop.stop()


async def test_stop_cuts_a_backoff_short() -> None:
    world = World(failing)
    world.loop.start()
    await settle()
    assert await world.loop.stop(patience=30)
    assert world.clock.next_due() is None


async def test_stop_lets_the_turn_end_within_its_patience() -> None:
    gate = asyncio.Event()
    ended: list[int] = []

    async def held(turn: int) -> None:
        await gate.wait()
        ended.append(turn)

    world = World(held)
    world.loop.start()
    await settle()
    stopping = asyncio.create_task(world.loop.stop(patience=30))
    await settle()
    gate.set()
    assert await stopping
    assert ended == [1]


async def test_stop_cancels_a_turn_that_hangs() -> None:
    async def hang(_: int) -> None:
        await asyncio.Event().wait()

    world = World(hang)
    world.loop.start()
    await settle()
    assert await world.loop.stop(patience=0.01)
    assert not world.loop.running


async def test_stop_from_inside_and_before_start() -> None:
    async def last(_: int) -> None:
        await world.loop.stop()

    world = World(last)
    assert await world.loop.stop()
    world.loop.start()
    await settle()
    assert not world.loop.running
    assert world.turns == 1


async def test_a_loop_can_be_started_again() -> None:
    world = World(nothing)
    world.loop.start()
    await settle()
    await world.loop.stop()
    world.loop.start()
    await settle()
    assert world.turns == 2
    await world.loop.stop()


async def test_a_report_that_raises_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    def broken(error: BaseException, phase: str) -> None:
        raise KeyError(phase)

    async def fail() -> None:
        raise OSError

    clock = ManualClock()
    loop = Loop("x", fail, clock=clock, pace=PACE, report=broken, chance=lambda: 0.0)
    loop.start()
    await settle()
    assert loop.running
    assert clock.next_due() == 0.5
    assert "reporting raised KeyError" in caplog.text
    await loop.stop()


def test_jitter_shortens_rests_only() -> None:
    pace = Pace(interval=10, jitter=0.1)
    assert pace.rest(None, 0.0, 0.0) == 10
    assert pace.rest(None, 1.0, 0.0) == 9
    assert pace.rest(99.0, 0.5, 0.0) == 10
    assert pace.rest(-1.0, 0.5, 0.0) == 0
    assert pace.backoff(10_000, 1.0) == 5


async def test_tasks_report_what_they_raise() -> None:
    reported: list[tuple[type[BaseException], str]] = []
    tasks = Tasks(lambda error, phase: reported.append((type(error), phase)))

    async def fail() -> None:
        raise OSError

    async def wait() -> None:
        await asyncio.Event().wait()

    started = [tasks.spawn(fail(), "relay"), tasks.spawn(wait(), "wait")]
    assert len(tasks) == 2
    await settle()
    assert reported == [(OSError, "relay")]
    assert len(tasks) == 1
    assert await tasks.stop() == 0
    assert await tasks.stop() == 0
    assert len(tasks) == 0
    assert len(reported) == 1
    assert started[1].cancelled()


async def test_stopping_tasks_is_bounded() -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    tasks = Tasks(lambda error, phase: None)
    task = tasks.spawn(stubborn(), "x")
    await settle()
    assert await tasks.stop(patience=0.01) == 1
    release.set()
    await task


def test_the_reporter_logs_and_tells(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def on_error(error: BaseException, phase: str) -> None:
        told.append(phase)
        raise RuntimeError("hook")

    reporter(on_error)(ValueError("why"), "settle")
    reporter()(ValueError("why"), "lease")
    assert told == ["settle"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3
    assert "settle failed: ValueError" in caplog.text
    assert "on_error raised RuntimeError" in caplog.text
