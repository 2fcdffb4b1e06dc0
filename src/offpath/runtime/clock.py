"""Time, injected: nothing else in offpath asks the operating system for it.

Points in time are aware UTC datetimes, durations are seconds as ``float`` (or ``timedelta``).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from offpath.errors import InvalidArgument

LONGEST = 10 * 366 * 86_400.0
"""No duration may be longer than ten years: what is longer is a mistake in the unit."""


class Clock(Protocol):
    """The source of time."""

    def now(self) -> datetime:
        """The present as an aware UTC datetime. May jump when the machine's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back: for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when ``seconds`` have passed; zero or less only yields to the loop."""
        ...

    async def wait(self, event: asyncio.Event, timeout: float | None) -> bool:  # noqa: ASYNC109
        """Wait until ``event`` is set, at most ``timeout`` seconds (None: for ever).

        True when the event was set. The event is not cleared.
        """
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now(self) -> datetime:
        """The machine's time, in UTC."""
        return datetime.now(UTC)

    # The function itself: every call of the store asks twice, and a frame would be half the price.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Sleep in the event loop."""
        await asyncio.sleep(max(seconds, 0.0))

    async def wait(self, event: asyncio.Event, timeout: float | None) -> bool:  # noqa: ASYNC109
        """Wait for ``event`` or ``timeout``, whichever is first."""
        if event.is_set():
            return True
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True


_COMPACT_ABOVE = 64
_Sleeper = tuple[float, int, "asyncio.Future[None]"]


class ManualClock:
    """A clock that stands still until it is told to move: for tests.

    Sleepers are woken by :meth:`advance` and :meth:`set`, in the order in which they are due.
    Belongs to the thread of the loop whose tasks sleep on it.
    """

    __slots__ = ("_elapsed", "_now", "_order", "_sleepers")

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = require_aware(start, "start")
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[_Sleeper] = []

    def now(self) -> datetime:
        """The time it was last moved to."""
        return self._now

    def monotonic(self) -> float:
        """Seconds advanced since it was made."""
        return self._elapsed

    def advance(self, step: float | timedelta) -> None:
        """Move forward and wake everyone who is due by then; refuses to go back.

        Returns at once: the woken tasks run when the loop gets control.
        """
        step = seconds(step, "step")
        self._now += timedelta(seconds=step)
        self._elapsed += step
        self._wake_due()

    def set(self, moment: datetime) -> None:
        """Move to ``moment``, as when the machine's clock is set; backwards wakes nobody."""
        moment = require_aware(moment, "moment")
        step = (moment - self._now).total_seconds()
        self._now = moment
        self._elapsed += max(step, 0.0)
        self._wake_due()

    def next_due(self) -> float | None:
        """Seconds until the first sleeper is due, None when nobody sleeps."""
        self._drop_finished()
        if not self._sleepers:
            return None
        return max(self._sleepers[0][0] - self._elapsed, 0.0)

    @property
    def sleeping(self) -> int:
        """The number of tasks that sleep on this clock."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Return when the clock was moved ``seconds`` further."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        alarm = self._alarm(seconds)
        try:
            await alarm
        finally:
            self._forget(alarm)

    async def wait(self, event: asyncio.Event, timeout: float | None) -> bool:  # noqa: ASYNC109
        """Wait for ``event`` or for the clock to be moved ``timeout`` further."""
        if event.is_set() or timeout is None:
            return await event.wait()
        if timeout <= 0:
            await asyncio.sleep(0)
            return event.is_set()
        setting = asyncio.ensure_future(event.wait())
        alarm = self._alarm(timeout)
        ends: set[asyncio.Future[Any]] = {setting, alarm}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return event.is_set()
        finally:
            setting.cancel()
            self._forget(alarm)

    def _alarm(self, seconds: float) -> asyncio.Future[None]:
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), alarm))
        return alarm

    def _forget(self, alarm: asyncio.Future[None]) -> None:
        """Without this a cancelled sleeper would stay in the heap until its time."""
        alarm.cancel()
        self._drop_finished()
        if len(self._sleepers) > _COMPACT_ABOVE and self.sleeping * 2 < len(self._sleepers):
            self._sleepers = [entry for entry in self._sleepers if not entry[2].done()]
            heapq.heapify(self._sleepers)

    def _drop_finished(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)

    def _wake_due(self) -> None:
        # A rounding error must not leave a sleeper a nanosecond short of its time for ever.
        limit = self._elapsed + 1e-9
        while self._sleepers and self._sleepers[0][0] <= limit:
            alarm = heapq.heappop(self._sleepers)[2]
            if not alarm.done():
                alarm.set_result(None)


def require_aware(moment: datetime, name: str) -> datetime:
    """``moment`` in UTC; raises InvalidArgument when it says no time zone.

    A datetime without a zone means something else on every machine, so it is never guessed.
    """
    if not isinstance(moment, datetime):
        raise InvalidArgument(f"{name} must be an aware datetime, not {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise InvalidArgument(
            f"{name} has no time zone: give an aware datetime, "
            f"for example datetime.now(UTC) or {name}.replace(tzinfo=UTC)"
        )
    return moment.astimezone(UTC)


def seconds(value: float | timedelta, name: str) -> float:
    """``value`` as seconds; raises InvalidArgument unless it is finite, not negative and sane."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = type(value).__name__
        raise InvalidArgument(f"{name} must be seconds (a number) or a timedelta, not {kind}")
    if not math.isfinite(value) or value < 0:
        raise InvalidArgument(f"{name} must be a finite number of seconds, 0 or more: {value!r}")
    if value > LONGEST:
        raise InvalidArgument(f"{name} is {value!r} seconds, over ten years: is the unit right?")
    return float(value)
