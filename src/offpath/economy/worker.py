"""The worker of an economy: its sweeps by a timer, or one run at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from msgspec.structs import replace

from offpath.economy.sweeps.runs import EconomyRun, SweepInput
from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.runtime.clock import Clock

Runs = Callable[[SweepInput], Awaitable[EconomyRun]]
Report = Callable[[BaseException, str], None]
Tick = Callable[[], Awaitable[None]]
Resting = Callable[[], Awaitable[bool]]
"""True if the economy is paused on every worker."""
Scheduler = Callable[[Tick, float], Callable[[], object]]
"""Calls the tick every so many seconds; returns what ends that."""

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
        self._ending: asyncio.Event | None = None
        self._timer: asyncio.Task[None] | None = None
        self._cancel: Callable[[], object] | None = None
        self._asked = SweepInput()

    @property
    def paused(self) -> bool:
        """True if ticks of the timer do nothing."""
        return self._paused

    @property
    def started(self) -> bool:
        """True if a timer goes."""
        return self._ending is not None

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
        if self._ending is not None:
            raise InvalidArgument("the worker is started already: stop it first")
        if asked is not None and asked.now is not None:
            raise InvalidArgument("a timer reads the clock each time: leave `now` out")
        self._asked = asked or SweepInput()
        self._ending = ending = asyncio.Event()
        if scheduler is not None:
            self._cancel = scheduler(self.tick, seconds)
        else:
            self._timer = asyncio.get_running_loop().create_task(
                self._repeat(seconds, ending), name="offpath economy"
            )

    async def stop(self) -> None:
        """Begin no run any more, and return when the present one is over. Idempotent."""
        ending, self._ending = self._ending, None
        if ending is None:
            return
        ending.set()
        cancel, self._cancel = self._cancel, None
        if cancel is not None:
            answer = cancel()
            if isinstance(answer, Awaitable):
                await answer
        timer, self._timer = self._timer, None
        if timer is not None:
            await asyncio.wait({timer})
        async with self._running:  # a scheduler's tick may still be at work
            pass

    def pause(self) -> None:
        """Let ticks do nothing until :meth:`resume`; :meth:`run_once` still runs."""
        self._paused = True

    def resume(self) -> None:
        """Let ticks run again."""
        self._paused = False

    async def tick(self) -> None:
        """The call of a timer: a run, unless one is under way, or it, or the economy, is paused."""
        ending = self._ending
        if ending is None or self._paused or self._running.locked():
            return
        async with self._running:
            try:
                if self._resting is None or not await self._resting():
                    await self._run_all(ending)
            except Exception as error:  # noqa: BLE001 - reported; the next tick comes
                self._report(error, "economy sweeps")

    async def _run_all(self, ending: asyncio.Event) -> None:
        asked = self._asked
        while True:
            done = await self._run(asked)
            full = tuple(result.name for result in done.batch if result.more)
            if not full or ending.is_set() or self._paused:
                return
            asked = replace(asked, only=full)

    async def _repeat(self, every: float, ending: asyncio.Event) -> None:
        while not ending.is_set():
            await self.tick()
            await self._clock.wait(ending, every)
