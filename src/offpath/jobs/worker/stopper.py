"""Stopping a worker in bounded time: drain, then abort, then leave, whatever hangs."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from offpath.jobs.values.run import Interruption

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from offpath.jobs.handler.resources import Resources
    from offpath.jobs.worker.engine import Engine
    from offpath.runtime.loop import Loop

ABORT_GRACE = 0.8
"""Seconds that aborted handlers get to end."""
RECORD_GRACE = 0.4
"""Seconds for the last ends to be recorded."""
CLOSE_GRACE = 0.15
"""Seconds for closing what handlers shared, when the stop has no time left."""
LEAVE_GRACE = 0.3
"""Seconds for each step of leaving (the loops, the store). With both, the graces stay below 2 s."""


class Stopper:
    """One stop of one engine. Asking again can only make it sooner."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._clock = engine.clock
        self._abort_at = math.inf

    def within(self, seconds: float) -> None:
        """Abort what runs ``seconds`` from now, unless that was to be sooner."""
        self._abort_at = min(self._abort_at, self._clock.monotonic() + seconds)
        self._engine.hand.changed.set()

    def left(self) -> float:
        """Seconds until what still runs is aborted; never so few that nothing can end."""
        return max(self._abort_at - self._clock.monotonic(), ABORT_GRACE / 2)

    async def drain(self, others: Callable[[], bool]) -> bool:
        """Wait until no job is held and the ``others`` are done, or the time to abort.

        Returns whether all jobs ended.
        """
        engine = self._engine

        def drained() -> bool:
            return not engine.hand and not engine.claimer.asking

        await self._until(lambda: drained() and others(), lambda: self._abort_at)
        return drained()

    async def abort(self, others: Callable[[], bool]) -> int:
        """End what runs; returns how many handlers had to be given up."""
        engine = self._engine

        def ended() -> bool:
            # All at once: each has its grace, and the stop has one limit for all of them. Asked
            # again at each change, since an answer that is still on its way may bring more.
            for run in engine.hand.unfinished():
                engine.watch.interrupt(run, Interruption.STOP)
            return not engine.hand.unfinished() and not engine.claimer.asking and others()

        end = self._clock.monotonic() + ABORT_GRACE
        await self._until(ended, lambda: end)
        stuck = engine.hand.unfinished()
        for run in stuck:
            engine.give_up(run)
        return len(stuck)

    async def record(self) -> int:
        """Wait a little for the last ends to be recorded; returns how many were not."""
        end = self._clock.monotonic() + RECORD_GRACE
        await self._until(lambda: not self._engine.hand, lambda: end)
        return len(self._engine.hand)

    async def close_shared(self, resources: Resources) -> None:
        """Close what the handlers shared, now that they have ended, in what is left of the time."""
        left = max(self._abort_at - self._clock.monotonic(), CLOSE_GRACE)
        await resources.release(self._engine.info.id, left)

    async def leave(self, loops: Iterable[Loop]) -> None:
        """End the loops, and tell the store that this worker is gone, if the store listens."""
        # The loops first: a heartbeat behind the goodbye would register the worker again.
        await self._briefly(_stopped(loops))
        await self._briefly(self._engine.store.deregister(self._engine.info.id))

    async def _until(self, done: Callable[[], bool], end: Callable[[], float]) -> bool:
        changed = self._engine.hand.changed
        while not done():
            left = end() - self._clock.monotonic()
            if left <= 0:
                return False
            changed.clear()
            await self._clock.wait(changed, None if left == math.inf else left)
        return True

    async def _briefly(self, call: Awaitable[object]) -> None:
        """Await ``call``; its error is reported, its hanging is cut short."""
        task = asyncio.ensure_future(call)
        over = asyncio.Event()
        task.add_done_callback(lambda _: over.set())
        # By the injected clock, which a plain timeout would not ask.
        await self._clock.wait(over, LEAVE_GRACE)
        if not task.done():
            task.cancel()
        elif not task.cancelled() and (error := task.exception()) is not None:
            self._engine.report(error, "stop")


async def _stopped(loops: Iterable[Loop]) -> None:
    # a gathering that is cut short by itself leaves an error that nobody retrieves
    await asyncio.gather(*(loop.stop() for loop in loops))
