"""A time limit that holds also for code that does not end when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from offpath.errors import OffpathError
from offpath.runtime.clock import Clock
from offpath.runtime.tasks import Report, Tasks

T = TypeVar("T")

GRACE = 1.0
"""Seconds that cancelled work has for its ``finally`` blocks, before it is left alone."""


class SweepOverdue(OffpathError):
    """A row, or a sweep's claim, took longer than its limit. It was cancelled.

    ``abandoned``: it went on regardless, and nobody waits for it any more.
    """

    code = "sweep_overdue"
    retryable = True

    def __init__(self, message: str, *, abandoned: bool) -> None:
        super().__init__(message)
        self.abandoned = abandoned


class Bounds:
    """Runs work within a limit, and keeps what had to be abandoned until it ends."""

    def __init__(self, clock: Clock, report: Report) -> None:
        self._clock = clock
        self._tasks = Tasks(report)
        self._abandoned: set[str] = set()

    @property
    def abandoned(self) -> frozenset[str]:
        """Names of the work that goes on although its time is over."""
        return frozenset(self._abandoned)

    def refuse_abandoned(self, what: str) -> None:
        """Raise :class:`SweepOverdue` when ``what`` was abandoned and has not ended since."""
        if what in self._abandoned:
            raise SweepOverdue(f"{what} goes on since an earlier pass", abandoned=True)

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float, what: str) -> T:
        """The outcome of ``work``; raises :class:`SweepOverdue` when it takes longer.

        What work does after its limit does not count, even if it comes to an end then.
        """
        task = asyncio.get_running_loop().create_task(work(), name=f"offpath {what}")
        over = asyncio.Event()
        task.add_done_callback(lambda _: over.set())
        try:
            if await self._clock.wait(over, seconds):
                return task.result()
            task.cancel()
            ended = await self._clock.wait(over, GRACE)
        except BaseException:
            task.cancel()
            raise
        if ended:
            _ = task.cancelled() or task.exception()  # seen: nobody else will ask for it
        else:
            self._abandoned.add(what)
            task.add_done_callback(lambda _: self._abandoned.discard(what))
            _ = self._tasks.spawn(_until_over(task), what)
        raise SweepOverdue(_text(what, seconds, ended), abandoned=not ended)


async def _until_over(task: asyncio.Task[Any]) -> None:
    """Hold on to abandoned work; what it raises in the end is reported by whoever spawned this."""
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


def _text(what: str, seconds: float, ended: bool) -> str:
    text = f"{what} took longer than {seconds:g} s: it was cancelled"
    return text if ended else f"{text}, and goes on regardless"
