"""Time limits of running attempts: one alarm for all of them, none for those without a limit."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from offpath.jobs.values.run import Interruption, silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.values.run import Run
    from offpath.runtime.clock import Clock

PATIENCE = 1.0
"""Seconds after which a handler that swallowed its cancellation is cancelled again."""
NUDGES = 5
"""The number of nudges before the loop is reported and left alone."""
_SMALL = 1_000


class Watch:
    """Interrupts runs when their time is up, and again those that ignore it."""

    def __init__(self, clock: Clock, ignored: Callable[[Run], None]) -> None:
        self._clock = clock
        self._ignored = ignored
        self._order = itertools.count()
        self._alarms: list[tuple[float, int, Run, Interruption | int]] = []
        self._full = _SMALL
        self.wake: Callable[[], None] = silent
        """Makes the next step come soon; set by whoever repeats it."""

    def start(self, run: Run, now: float) -> None:
        """Watch a run that starts now (a reading of the monotonic clock)."""
        timeout, deadline = run.options.timeout, run.job.deadline
        if timeout is not None:
            self._set(now + timeout, run, Interruption.TIMEOUT)
        if deadline is not None:
            self._set(run.store_time.reading(deadline), run, Interruption.DEADLINE)

    def interrupt(self, run: Run, why: Interruption) -> bool:
        """Interrupt a run, and see to it that it hears it; whether that was news."""
        news = run.interrupt(why)
        if news and run.task.is_async:
            self._set(self._clock.monotonic() + PATIENCE, run, NUDGES)
        return news

    async def step(self) -> float | None:
        """Act on the alarms that are due; returns seconds until the next one."""
        now = self._clock.monotonic()
        alarms = self._alarms
        # Those of ended runs go by the way, wherever their time is: otherwise the next alarm may be
        # one of them.
        while alarms and (alarms[0][2].over or alarms[0][0] <= now):
            _, _, run, what = heapq.heappop(alarms)
            if not run.over:
                self._act(run, what)
        return max(alarms[0][0] - now, 0.0) if alarms else None

    def _act(self, run: Run, what: Interruption | int) -> None:
        if isinstance(what, Interruption):
            self.interrupt(run, what)
        elif what > 0:
            run.nudge()
            self._set(self._clock.monotonic() + PATIENCE, run, what - 1)
        elif run.must_end:
            self._ignored(run)

    def _set(self, when: float, run: Run, what: Interruption | int) -> None:
        # At twice of what was left the last time: each alarm pays for a constant part of a
        # compaction.
        if len(self._alarms) >= self._full:
            self._compact()
        # The number tells alarms of one moment apart, for runs cannot be compared.
        entry = (when, next(self._order), run, what)
        heapq.heappush(self._alarms, entry)
        if self._alarms[0] is entry:
            self.wake()

    def _compact(self) -> None:
        """Without this, thousands of short jobs with a long limit would stay here until it."""
        self._alarms = [alarm for alarm in self._alarms if not alarm[2].over]
        heapq.heapify(self._alarms)
        self._full = max(_SMALL, 2 * len(self._alarms))
