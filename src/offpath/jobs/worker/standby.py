"""Handlers that wait for other jobs: they give back their slots, and come back beside what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from offpath.jobs.values.run import Run
    from offpath.jobs.values.services import HandlerThreads
    from offpath.jobs.worker.hand import Hand
    from offpath.model.job import JobRecord


class HandlerStandby:
    """One handler's call: of one job, or of all jobs of a batch. Belongs to one event loop."""

    __slots__ = ("_changed", "_hand", "_run", "_threads", "_waits", "loop")

    def __init__(
        self,
        run: Run,
        hand: Hand,
        threads: HandlerThreads,
        loop: asyncio.AbstractEventLoop,
        *,
        changed: Callable[[], None],
    ) -> None:
        self._run = run
        self._hand = hand
        self._threads = threads
        self._changed = changed
        """Told that a slot is free."""
        self._waits = 0
        """The number of waits of the call that go on: it may wait for several jobs at once."""
        self.loop = loop

    def step_aside(self) -> bool:
        """Begin a wait; True if some task has as many waiting handlers as it may have."""
        self._waits += 1
        if self._waits == 1:
            if not self._run.task.is_async:
                self._threads.widen()  # the waiting one keeps its thread
            if self._hand.step_aside(self._run):
                self._changed()
        return self._hand.crowded

    def come_back(self) -> None:
        """End a wait. After the last one the handler goes on at once, beside what runs by then.

        It would otherwise wait for a job that may itself need what this handler holds.
        """
        self._waits -= 1
        if self._waits == 0:
            if not self._run.task.is_async:
                self._threads.narrow()
            self._hand.come_back(self._run)

    def shut_out(self, job: JobRecord) -> str | None:
        """The reason for which the worker takes a job only when a wait has ended, if it has one."""
        return self._hand.shut_out(job.task, job.queue)
