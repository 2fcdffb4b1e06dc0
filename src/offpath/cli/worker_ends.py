"""The ends of a worker that is started for a while: nothing is due, so many jobs, so long."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from offpath.cli.frame import option_group
from offpath.cli.option_values import Duration
from offpath.model.job import DeadReason, JobState
from offpath.model.served import OTHERS

if TYPE_CHECKING:
    from collections.abc import Collection

    from offpath.app import App
    from offpath.jobs.worker.app_worker import AppWorker
    from offpath.jobs.worker.terms import Stopped

LEFT_UNDONE: Final = 3
"""The exit code when jobs died, or when the worker was to run until idle and work is left."""
_LOOK: Final = 0.1
"""Seconds between two looks."""
_AGAIN: Final = 3
"""Looks in a row that find nothing: what a job has just led to shows in the next one."""
_log = logging.getLogger("offpath.cli")


class WorkerEnds(NamedTuple):
    """The ends that were asked for; none of them: it runs until it is stopped."""

    until_idle: bool
    max_jobs: int | None
    max_seconds: float | None

    @property
    def any(self) -> bool:
        """True if it ends by itself."""
        return self.until_idle or self.max_jobs is not None or self.max_seconds is not None


ends_option = option_group(
    "ends",
    WorkerEnds,
    click.option(
        "--until-idle", is_flag=True, help="End when nothing is due that this worker runs."
    ),
    click.option(
        "--max-jobs",
        type=click.IntRange(min=1),
        help="Take no more than so many jobs, and end when they have ended.",
    ),
    click.option(
        "--max-seconds",
        type=Duration(0, above=True),
        metavar="DURATION",
        help="End after so long; what runs may end as after a signal.",
    ),
)


class EndsWatch:
    """Looks whether an end has come, and stops the worker then."""

    def __init__(
        self, app: App, running: AppWorker, ends: WorkerEnds, queues: Collection[str] | None
    ) -> None:
        self._app = app
        self._queues = None if not queues or OTHERS in queues else frozenset(queues)
        self._running = running
        self._ends = ends
        self._undone = False
        self._dead = self._died_before = 0
        if ends.max_jobs is not None:
            running.take_at_most(ends.max_jobs)

    async def run(self) -> None:
        """Look until the worker is to stop, and stop it."""
        clock, began, quiet = self._app.clock, self._app.clock.monotonic(), 0
        self._died_before = await self._died_at_gates()
        most = self._ends.max_seconds
        while True:
            if most is not None and clock.monotonic() - began >= most:
                return await self._stop(f"after {most:g} s")
            done = self._running.counts.total
            if self._ends.max_jobs is not None and done >= self._ends.max_jobs:
                return await self._stop(f"after {done} jobs")
            if self._ends.until_idle:  # what may not be taken any more is work that is left
                quiet = 0 if await self._busy() else quiet + 1
                if quiet >= _AGAIN:
                    return await self._stop("because nothing is due")
            await clock.sleep(_LOOK)

    def exit_code(self, stopped: Stopped) -> int:
        """The worker's own code, or that something was left undone."""
        if stopped.exit_code:
            return stopped.exit_code
        dead = self._dead or self._running.counts.dead  # the latter where a signal came first
        return LEFT_UNDONE if dead or self._undone else 0

    async def _stop(self, why: str) -> None:
        counts = self._running.counts
        # without an attempt: their parts died here
        self._dead = counts.dead + await self._died_at_gates() - self._died_before
        left = ""
        if self._ends.until_idle:
            self._undone = await self._busy()
            left = await self._left()
        _log.info("ends %s: %d succeeded, %d dead%s", why, counts.succeeded, self._dead, left)
        await self._running.stop()

    async def _died_at_gates(self) -> int:
        """The jobs of this worker that are dead since their gate could not fire."""
        dead = await self._app.jobs.counts(state=JobState.DEAD, reason=DeadReason.UNSATISFIABLE)
        return sum(
            one.count for one in dead if one.task in self._app.tasks and self._serves(one.queue)
        )

    async def _left(self) -> str:
        """The jobs of this worker that wait: for another attempt, their time, or something else."""
        waiting = Counter[JobState]()
        for one in await self._app.jobs.counts(state=(JobState.QUEUED, JobState.BLOCKED)):
            if one.task in self._app.tasks and self._serves(one.queue):
                waiting[one.state] += one.count
        if not waiting:
            return ""
        why = "" if self._undone else " (for a retry, a delay or a pause)"
        queued, blocked = waiting[JobState.QUEUED], waiting[JobState.BLOCKED]
        return f"; left: {queued} queued{why if queued else ''}, {blocked} blocked"

    async def _busy(self) -> bool:
        """True if something runs here, is due for this worker, or waits for room under a limit."""
        if self._running.active():
            return True
        due = await self._app.backlog(limit=1)
        if any(one.task in self._app.tasks and self._serves(one.queue) for one in due):
            return True
        return any(one.held and not one.paused for one in await self._app.limits.list())

    def _serves(self, queue: str) -> bool:
        return self._queues is None or queue in self._queues
