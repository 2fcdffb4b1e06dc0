"""The worker of an economy: its sweeps by a timer, or one run at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from msgspec.structs import replace

from offpath.economy.sweeps.runs import EconomyRun, SweepInput
from offpath.errors import InvalidArgument
from offpath.jobs.worker.passes import Scheduler, Timed, clock_scheduler
from offpath.model import checks
from offpath.runtime.clock import Clock
from offpath.runtime.tasks import Report

Runs = Callable[[SweepInput], Awaitable[EconomyRun]]
Resting = Callable[[], Awaitable[bool]]
"""True if the economy is paused on every worker."""

EVERY = 60.0


class EconomyWorker:
    """Runs the sweeps of an economy. Its runs never overlap.

    For hosts with a scheduler of their own, and for tests: ``offpath worker`` drives the sweeps of
    every economy of its app by itself.
    """

    def __init__(
        self, run: Runs, clock: Clock, report: Report, resting: Resting | None = None
    ) -> None:
        self._run = run
        self._resting = resting
        self._clock = clock
        self._report = report
        self._running = asyncio.Lock()
        self._paused = False
        self._timer: Timed | None = None
        self._asked = SweepInput()

    @property
    def paused(self) -> bool:
        """True if ticks of the timer do nothing."""
        return self._paused

    @property
    def started(self) -> bool:
        """True if a timer goes."""
        return self._timer is not None

    async def run_once(self, asked: SweepInput | None = None, /) -> EconomyRun:
        """One run of the sweeps, also while it is paused; see :meth:`Economy.run_sweeps`.

        Waits for the run that is under way.
        """
        async with self._running:
            return await self._run(asked or SweepInput())

    def start(
        self,
        every: float | timedelta = EVERY,
        asked: SweepInput | None = None,
        *,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Run at once and then every so many seconds, each time by the clock's time.

        After a run in which a page was full the sweep that it was goes on at once.
        ``scheduler(tick, every)`` is what calls, and returns what ends it; the app's clock by
        default. Raises ``InvalidArgument`` when it goes already, and for an ``asked`` with ``now``.
        """
        if (seconds := checks.seconds(every, "every")) <= 0:
            raise InvalidArgument("every must be more than 0 seconds")
        if self._timer is not None:
            raise InvalidArgument("the worker is started already: stop it first")
        if asked is not None and asked.now is not None:
            raise InvalidArgument("a timer reads the clock each time: leave `now` out")
        self._asked = asked or SweepInput()
        self._timer = Timed(self._tick, lambda error, _: self._report(error, "economy sweeps"))
        self._timer.begin(scheduler or clock_scheduler(self._clock), seconds)

    async def stop(self) -> None:
        """Begin no run any more, and return when the present one is over. Idempotent."""
        timer, self._timer = self._timer, None
        if timer is None:
            return
        await timer.stop()
        async with self._running:  # one by hand may still be at work
            pass

    def pause(self) -> None:
        """Let ticks do nothing until :meth:`resume`; :meth:`run_once` still runs."""
        self._paused = True

    def resume(self) -> None:
        """Let ticks run again."""
        self._paused = False

    async def _tick(self) -> None:
        """A run, unless one is under way by hand, or this worker, or the economy, is paused."""
        timer = self._timer
        if self._paused or self._running.locked():
            return
        async with self._running:
            if self._resting is None or not await self._resting():
                await self._run_all(timer)

    async def _run_all(self, timer: Timed | None) -> None:
        """Run, and go on at once with those sweeps whose page was full, until it is stopped."""
        asked = self._asked
        while True:
            done = await self._run(asked)
            full = tuple(result.name for result in done.batch if result.more)
            if not full or self._timer is not timer or self._paused:
                return
            asked = replace(asked, only=full)
