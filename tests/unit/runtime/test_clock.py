import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from offpath.errors import InvalidArgument
from offpath.runtime.clock import Clock, ManualClock, SystemClock, require_aware, seconds


async def settle() -> None:
    """Let every woken task run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock()
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    clock.advance(1.5)
    clock.advance(timedelta(minutes=1))
    assert clock.now() == datetime(2026, 1, 1, 0, 1, 1, 500_000, tzinfo=UTC)
    assert clock.monotonic() == 61.5


async def test_sleepers_wake_in_due_order() -> None:
    clock = ManualClock()
    woken: list[str] = []

    async def sleeper(name: str, duration: float) -> None:
        await clock.sleep(duration)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(n, d)) for n, d in [("c", 3), ("a", 1), ("b", 2)]]
    await settle()
    assert clock.next_due() == 1
    clock.advance(0.5)
    await settle()
    assert woken == []
    assert clock.next_due() == 0.5
    clock.advance(10)
    await asyncio.gather(*tasks)
    assert woken == ["a", "b", "c"]
    assert clock.next_due() is None


async def test_steps_that_do_not_add_up_exactly_still_wake() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(0.3))
    await settle()
    for _ in range(3):
        clock.advance(0.1)
    await settle()
    assert task.done()


async def test_cancelled_sleepers_leave_nothing_behind() -> None:
    clock = ManualClock()
    keep = asyncio.create_task(clock.sleep(1))
    tasks = [asyncio.create_task(clock.sleep(100 + n)) for n in range(1000)]
    await settle()
    assert clock.sleeping == 1001
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert clock.sleeping == 1
    assert len(clock._sleepers) <= 65
    clock.advance(1)
    await keep
    assert clock.next_due() is None


async def test_wait_tells_event_from_timeout() -> None:
    clock = ManualClock()
    event = asyncio.Event()
    waiting = asyncio.create_task(clock.wait(event, 5))
    await settle()
    clock.advance(5)
    assert await waiting is False
    waiting = asyncio.create_task(clock.wait(event, 5))
    await settle()
    event.set()
    assert await waiting is True
    assert clock.next_due() is None
    assert await clock.wait(event, 0) is True
    assert await clock.wait(asyncio.Event(), 0) is False


async def test_wait_without_timeout_ends_with_the_event() -> None:
    event = asyncio.Event()
    for clock in (ManualClock(), SystemClock()):
        event.clear()
        waiting = asyncio.create_task(clock.wait(event, None))
        await settle()
        event.set()
        assert await waiting is True


async def test_cancelling_a_wait_leaves_nothing_behind() -> None:
    clock = ManualClock()
    waiting = asyncio.create_task(clock.wait(asyncio.Event(), 60))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert clock.next_due() is None


async def test_set_moves_both_ways() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(60))
    await settle()
    clock.set(datetime(2025, 1, 1, tzinfo=UTC))
    assert clock.now().year == 2025
    assert clock.monotonic() == 0
    clock.set(clock.now() + timedelta(seconds=60))
    await task


async def test_system_clock() -> None:
    clock: Clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()
    await clock.sleep(-1)
    assert await clock.wait(asyncio.Event(), 0.001) is False


def test_naive_datetimes_are_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidArgument, match=r"run_at has no time zone.*tzinfo=UTC"):
        require_aware(datetime(2026, 1, 1), "run_at")  # noqa: DTZ001 - the point of the test
    with pytest.raises(InvalidArgument, match="not str"):
        require_aware("2026-01-01", "run_at")  # type: ignore[arg-type]


def test_aware_datetimes_are_turned_to_utc() -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))
    moment = require_aware(datetime(2026, 1, 1, 5, 30, tzinfo=kolkata), "run_at")
    assert (moment.hour, moment.tzinfo) == (0, UTC)


def test_seconds() -> None:
    assert seconds(3, "delay") == 3.0
    assert seconds(timedelta(minutes=1), "delay") == 60.0


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), 1e12, timedelta(seconds=-1)])
def test_bad_durations_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="delay"):
        seconds(bad, "delay")


@pytest.mark.parametrize("bad", ["1", None, True])
def test_durations_of_another_type_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="must be seconds"):
        seconds(bad, "delay")
