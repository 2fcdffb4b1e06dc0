"""Sweeps by a timer, in a host that does not run the whole worker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from offpath.model.tally import SweepRun

if TYPE_CHECKING:
    from offpath.runtime.clock import Clock
    from offpath.runtime.loop import LoopSpec
    from offpath.runtime.tasks import Report

Tick = Callable[[], Awaitable[None]]
Stop = Callable[[], Awaitable[None]]
Scheduler = Callable[[Tick, float], Callable[[], object]]
"""Calls the tick every so many seconds, from the event loop; returns what ends that. A scheduler
may call while the tick before still runs: such a call does nothing."""


class Passes(Protocol):
    """The sweeps of a worker."""

    async def run(
        self,
        now: datetime | None = None,
        *,
        only: str | Iterable[str] | None = None,
        limit: int | None = None,
        force: bool = False,
    ) -> SweepRun:
        """One pass of each."""
        ...

    def loops(self, only: str | None = None) -> tuple[LoopSpec, ...]:
        """The loops that drive them; ``only`` names the one that is wanted."""
        ...

    def check(self, *, only: str | Iterable[str] | None, limit: int | None) -> None:
        """Raise ``InvalidArgument`` when a run with these would."""
        ...


class NoPasses:
    """The passes of a worker that was made without an app: none."""

    async def run(self, *_: object, **__: object) -> SweepRun:
        """Nothing is run."""
        return SweepRun()

    def loops(self, only: str | None = None) -> tuple[LoopSpec, ...]:  # noqa: ARG002 - the port's
        """Nothing is driven."""
        return ()

    def check(self, **_: object) -> None:
        """Nothing is wrong with it."""


class Timed:
    """Repeats a run on a scheduler. :meth:`stop` waits for the one that is under way."""

    def __init__(self, run: Tick, report: Report) -> None:
        self._run = run
        self._report = report
        self._now: asyncio.Task[None] | None = None
        self._ended = False
        self._cancel: Callable[[], object] = lambda: None

    def begin(self, scheduler: Scheduler, every: float) -> Stop:
        """Have the scheduler call; returns what ends it."""
        self._cancel = scheduler(self.tick, every)
        return self.stop

    async def tick(self) -> None:
        """Run now, unless it runs already or was stopped. Raises nothing but cancellation."""
        if self._ended or (self._now is not None and not self._now.done()):
            return
        self._now = asyncio.get_running_loop().create_task(self._once(), name="offpath sweeps")
        # Shielded: a scheduler that cancels its tick must not cut a pass short.
        await asyncio.shield(self._now)

    async def stop(self) -> None:
        """Call no more, and return when the present run is over. Idempotent."""
        # Marked before anything is waited for: a tick that comes meanwhile must not begin a pass.
        first, self._ended = not self._ended, True
        if first:
            answer = self._cancel()
            if inspect.isawaitable(answer):
                await answer
        # A pass that stops its own timer must not wait for itself.
        if self._now is not None and self._now is not asyncio.current_task():
            await asyncio.wait({self._now})

    async def _once(self) -> None:
        try:
            await self._run()
        except Exception as error:  # noqa: BLE001 - reported; the next tick comes
            self._report(error, "sweeps")


def clock_scheduler(clock: Clock) -> Scheduler:
    """The scheduler that is used when the host gives none: at once, and then after each rest."""

    def schedule(tick: Tick, every: float) -> Callable[[], object]:
        ending = asyncio.Event()

        async def repeat() -> None:
            while not ending.is_set():
                await tick()
                await clock.wait(ending, every)

        task = asyncio.get_running_loop().create_task(repeat(), name="offpath sweep timer")

        async def end() -> None:
            ending.set()
            await asyncio.wait({task})

        return end

    return schedule
