"""A loop whose rows fail for good is red, also when nothing else is due between its failures."""

from __future__ import annotations

import asyncio

import pytest

from offpath.model.health import BAD_SHARE, CLEARED, ENOUGH, RECENT, Condition, Streak
from offpath.model.tally import Turn, Verdict
from offpath.runtime.clock import ManualClock
from offpath.runtime.loop import Loop, LoopLimits
from offpath.runtime.loop_status import LoopStatus
from offpath.runtime.pace import Pace

BAD = Turn(verdict=Verdict.FAILED, counts={"failed": 1}, cause="1 of 1 messages failed")
SOME_BAD = Turn(verdict=Verdict.DEGRADED, counts={"sent": 1, "failed": 1})
EMPTY = Turn(verdict=Verdict.EMPTY)
GOOD = Turn(counts={"sent": 1})
WAITS = Turn()
"""A clean turn that moved nothing: it waits for what is in hand."""
RAISES = ConnectionError("the store is away")
Course = Turn | Exception


async def after(*turns: Course, rows: bool = True) -> LoopStatus:
    """The facts of a loop once it had these turns."""
    clock, left = ManualClock(), list(turns)

    async def step() -> Turn:
        turn = left.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn

    pace = Pace(interval=1, first_backoff=1, longest_backoff=1, jitter=0)
    limits = LoopLimits(rows=rows, window=15.0)
    loop = Loop("relay", step, clock=clock, pace=pace, report=lambda *_: None, limits=limits)
    loop.start()
    for _ in range(20):
        await asyncio.sleep(0)
    while left:
        clock.advance(1)
        for _ in range(20):
            await asyncio.sleep(0)
    status = loop.status()
    await loop.stop()
    return status


@pytest.mark.parametrize("bad", [BAD, SOME_BAD])
@pytest.mark.parametrize("between", [EMPTY, WAITS])
async def test_what_has_no_rows_neither_counts_nor_ends_a_row_of_failures(
    bad: Turn, between: Turn
) -> None:
    alone = await after(*[bad, between] * 3)
    assert (alone.consecutive_failures, alone.judged().healthy) == (3, True)
    told = await after(*[bad, between] * 4, *[between] * 20)
    assert told.consecutive_failures == 4
    assert told.judged().condition is Condition.UNHEALTHY


async def test_a_turn_that_moved_rows_ends_it() -> None:
    told = await after(*[BAD, EMPTY] * 4, GOOD)
    assert (told.consecutive_failures, told.cause) == (0, None)
    assert told.judged().healthy


async def test_an_outage_of_the_store_is_over_when_it_answers() -> None:
    told = await after(*[RAISES] * 6, EMPTY)
    assert told.consecutive_failures == 0
    assert told.judged().healthy


async def test_the_store_that_answers_ends_no_failures_of_rows() -> None:
    course: list[Course] = [BAD, RAISES, RAISES, EMPTY]
    told = await after(*course * 4)
    assert told.consecutive_failures == 4


async def test_a_loop_of_the_workers_own_is_well_as_soon_as_it_can_work() -> None:
    """Its counts are not rows that fail for good: progress that could not be written, say."""
    told = await after(*[BAD] * 6, EMPTY, rows=False)
    assert told.judged().healthy


async def test_mostly_bad_turns_are_red_though_a_good_one_comes_now_and_then() -> None:
    told = await after(*[BAD, EMPTY, BAD, EMPTY, GOOD] * 4)
    assert told.consecutive_failures == 0
    assert told.judged().reason == "8 of the last 12 turns with rows went badly"
    assert (await after(*[BAD, GOOD, EMPTY] * 12)).judged().healthy, "half of them is not most"


async def test_clean_turns_in_a_row_clear_what_was_before() -> None:
    trouble = [BAD, BAD, GOOD] * 6
    assert not (await after(*trouble, *[GOOD] * (CLEARED - 2))).judged().healthy
    assert (await after(*trouble, *[GOOD] * (CLEARED - 1))).judged().healthy


def test_a_streak_remembers_so_many_turns_and_judges_from_enough() -> None:
    streak = Streak()
    for n in range(100):
        streak = streak.after(clean=n % 3 == 0)
        assert len(streak.recent) == min(n + 1, RECENT)
        assert (streak.mostly_bad is None) == (n + 1 < ENOUGH)
    assert streak.bad > BAD_SHARE * RECENT


async def test_rows_that_fail_are_no_standstill() -> None:
    """Whoever restarts what hangs leaves it alone: it does what it is for."""
    told = (await after(*[BAD] * 20)).judged()
    assert (told.condition, told.fresh) == (Condition.UNHEALTHY, True)
    told = (await after(*[RAISES] * 20)).judged()
    assert (told.condition, told.fresh) == (Condition.UNHEALTHY, False)
