"""The loops of one worker: driven, kept alive, and reported to whoever judges them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from offpath.errors import OffpathError
from offpath.runtime.loop import FREED, Loop, LoopLimits
from offpath.runtime.pace import Moments, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, ValuesView

    from offpath.jobs.worker.engine import Engine
    from offpath.jobs.worker.terms import Parts
    from offpath.runtime.loop import Iteration, LoopSpec
    from offpath.runtime.loop_status import LoopStatus
    from offpath.store.hints import Hint

UNHURRIED = 20.0
"""Seconds between two turns of loops that are woken whenever there is something to do. They show
by it that they live: three of them are the least window."""
TOGETHER = 0.5
"""Seconds between two moments at which loops turn together: as often as the most frequent one."""
LONGEST_BACKOFF = 4.0
"""Seconds between two tries while the store is away: work goes on within 5 s of its return."""


class LoopHung(OffpathError):
    """A turn took longer than its loop's window: it was cancelled, and the loop starts again."""

    code = "loop_hung"


class Loops:
    """Every loop of one worker, by name: its own, and those that somebody added.

    They are judged from outside, by :meth:`statuses`; :meth:`keep` starts dead ones again. A turn
    of the worker's own loops that hangs is cancelled, for they can all bear that; an added one may
    take the time it takes, and is only told about.
    """

    def __init__(self, engine: Engine, parts: Parts, *, died: Callable[[str], None]) -> None:
        self._engine = engine
        self._random = parts.random
        self._died = died
        # A test's clock has no wake-ups to save.
        phase = parts.random() * TOGETHER
        self._moments = Moments(every=TOGETHER, phase=phase) if parts.real_time else None
        self._loops: dict[str, Loop] = {}
        self._added: dict[str, LoopSpec] = {}

    def __contains__(self, name: str) -> bool:
        """True if there is a loop of this name."""
        return name in self._loops

    def values(self) -> ValuesView[Loop]:
        """The loops."""
        return self._loops.values()

    def own(self, name: str, step: Iteration, interval: float = UNHURRIED) -> Loop:
        """Have a loop of the worker's own."""
        return self._make(name, step, interval, LoopLimits())

    def add(self, specs: Iterable[LoopSpec]) -> None:
        """Have loops that somebody asked for."""
        for spec in specs:
            limits = LoopLimits(
                budget=spec.budget, window=spec.window, critical=spec.critical, rows=True
            )
            self._make(spec.name, spec.step, spec.interval, limits)
            self._added[spec.name] = spec

    def _make(self, name: str, step: Iteration, interval: float, limits: LoopLimits) -> Loop:
        loop = self._loops[name] = Loop(
            name,
            step,
            clock=self._engine.clock,
            pace=Pace(interval=interval, longest_backoff=LONGEST_BACKOFF, moments=self._moments),
            report=self._failed,
            chance=self._random,
            limits=limits,
            seen=self._engine.telemetry.loop(name).seen,
            died=partial(self._loop_died, name),
        )
        return loop

    def start(self) -> None:
        """Start them all."""
        for loop in self._loops.values():
            loop.start()

    def statuses(self) -> list[LoopStatus]:
        """The facts of each. May be called from any thread."""
        # A copy: another thread may ask while the loop's own adds some.
        return [loop.status() for loop in tuple(self._loops.values())]

    # -- waking ----------------------------------------------------------------------------------

    def wake(self, name: str) -> None:
        """Have the next turn of this loop at once, if there is such a loop."""
        # A worker that only attends has fewer loops, and hints come to it as well.
        if (loop := self._loops.get(name)) is not None:
            loop.wake()

    def hinted(self, hint: Hint) -> None:
        """The store says that something may have changed."""
        for name, spec in self._added.items():
            if hint in spec.wakes:
                self._loops[name].wake()

    def freed(self) -> None:
        """Workers were found dead here: what they held is there for these loops."""
        for name, spec in self._added.items():
            if FREED in spec.wakes:
                self._loops[name].wake()

    # -- keeping alive ---------------------------------------------------------------------------

    def keep(self, only: Collection[str] = ()) -> float | None:
        """Start those that died, end turns that hang; returns seconds until there is more to do.

        ``only`` names the loops to look at; none means all.
        """
        waits = [self._kept(loop) for name, loop in self._loops.items() if not only or name in only]
        return min((wait for wait in waits if wait is not None), default=None)

    def _kept(self, loop: Loop) -> float | None:
        due = loop.revival
        if due is None:
            # A turn of an added loop is code that we do not know: a cancel might leave it half
            # done.
            if loop.name not in self._added:
                self._end_hanging(loop)
            return None
        if due > 0:
            return due
        self._engine.telemetry.loop(loop.name).restarted()
        loop.start()
        return None

    def _end_hanging(self, loop: Loop) -> None:
        if not loop.hangs:
            return
        msg = f"one turn of {loop.name} took over {loop.window:.0f} s and was cancelled"
        loop.interrupt(LoopHung(msg))

    def _loop_died(self, name: str) -> None:
        self.wake(KEEPER)
        # It may be the keeper itself that died, so those that look after it are woken, too.
        for name_of_other in KEEPERS_KEEPERS:
            self.wake(name_of_other)
        self._died(name)

    def _failed(self, error: BaseException, name: str) -> None:
        self._engine.telemetry.loop_failed(name)
        self._engine.report(error, name)

    # -- ending ----------------------------------------------------------------------------------

    async def end_added(self, left: Callable[[], float]) -> None:
        """End the added loops: each after its present turn, then what that turn has begun.

        ``left`` tells the seconds that there are for it.
        """
        await asyncio.gather(*(self._end(spec, left) for spec in self._added.values()))

    async def _end(self, spec: LoopSpec, left: Callable[[], float]) -> None:
        task = self._loops[spec.name].end()
        if task is not None:
            await asyncio.wait({task})
        if spec.stop is None:
            return
        try:
            await spec.stop(left())
        except Exception as error:  # noqa: BLE001 - others must be ended too
            self._engine.report(error, spec.name)

    def abort_added(self) -> None:
        """Cancel the turns of added loops that still go on."""
        for name in self._added:
            if (task := self._loops[name].end()) is not None:
                task.cancel()


KEEPER = "keep"
"""The loop that keeps the others alive. It asks nobody for anything, so that nothing can hold it
up; it is kept alive itself by two others."""
KEEPERS_KEEPERS = ("signals", "heartbeat")
