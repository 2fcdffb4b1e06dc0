"""A time limit for attempts that run at once, kept by one watcher: a timer for each costs more."""

from __future__ import annotations

import asyncio

from offpath.runtime.clock import Clock

Attempt = asyncio.Task[None]


class TimeLimitExceeded(Exception):
    """The attempt took longer than its limit and was cancelled."""


class Overtime:
    """Cancels what takes longer than ``seconds``. A task makes one attempt after another."""

    __slots__ = ("_clock", "_ends", "_overdue", "_seconds", "_watch")

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends: dict[Attempt, float] = {}
        self._overdue: set[Attempt] = set()
        self._watch: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Look from now on, until :meth:`rest`."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._keep_time(), name="offpath message times")

    def rest(self) -> None:
        """Nothing is left to look at."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def begin(self, task: Attempt, at: float) -> None:
        """An attempt of this task began at a time of the clock's ``monotonic``."""
        self._ends[task] = at + self._seconds

    def end(self, task: Attempt) -> None:
        """It has ended. The next one has a limit of its own, also when this one swallowed a
        cancellation.
        """
        self._ends.pop(task, None)
        if task in self._overdue:
            self._overdue.discard(task)
            task.uncancel()

    def forget(self, task: Attempt) -> None:
        """The task itself is done."""
        self._ends.pop(task, None)
        self._overdue.discard(task)

    def why(self, task: Attempt, error: BaseException) -> BaseException:
        """The meaning of a cancellation: over time, or raised by the work. Raises it when somebody
        else has cancelled the task.
        """
        if task in self._overdue:
            self.end(task)
            return TimeLimitExceeded(f"it took longer than {self._seconds:g} s and was cancelled")
        if task.cancelling():
            raise error
        return error

    async def _keep_time(self) -> None:
        """The first begun is the first to be over."""
        while True:
            now = self._clock.monotonic()
            late = [task for task, end in self._ends.items() if end <= now]
            for task in late:
                if task not in self._overdue:
                    self._overdue.add(task)
                    task.cancel()
            ends = (end for task, end in self._ends.items() if task not in self._overdue)
            await self._clock.sleep(next(ends, now + self._seconds) - now)
