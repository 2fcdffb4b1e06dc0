"""Beginning a job here at once: stored and leased in one commit, then run like any other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from offpath.errors import LeaseLost, StoreError
from offpath.jobs.values.run import StoreTime

if TYPE_CHECKING:
    from offpath.jobs.worker.engine import Engine
    from offpath.model.job import LeasedJob, NewJob
    from offpath.runtime.tasks import Tasks

_LOOKS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between the looks for a job whose store's answer was lost: what was sent to the store may
still be carried out for as long as a statement may take."""


class Beginning:
    """One job that is to begin in one worker."""

    def __init__(self, engine: Engine, tasks: Tasks) -> None:
        self._engine = engine
        self._tasks = tasks

    async def begin(self, job: NewJob) -> bool:
        """Store and begin it; False: it was not created. See :meth:`Worker.begin`."""
        engine = self._engine
        # Before the call: the worker's own lease may bring the job while its answer is on the way.
        engine.claimer.expected.add(job.id)
        try:
            leased = await self._start(job)
        except (StoreError, asyncio.CancelledError) as error:
            if not isinstance(error, StoreError) or error.retryable:
                _ = self._tasks.spawn(self._look(job.id), "inline")
            raise
        finally:
            engine.claimer.expected.discard(job.id)
        if leased is None:
            return False
        self._run(leased)
        return True

    async def _start(self, job: NewJob) -> LeasedJob | None:
        try:
            return await self._engine.store.start(job, self._engine.info.id)
        except LeaseLost:
            # The loop was blocked, or the store away, for a whole lease: nothing was written.
            await self._engine.heartbeat.beat()
            return await self._engine.store.start(job, self._engine.info.id)

    def _run(self, leased: LeasedJob) -> None:
        at = self._engine.clock.monotonic()
        time = StoreTime(leased.enqueued_at, at)  # it was stored just now
        self._engine.start(self._engine.claimer.run_of(leased, time, at), inline=True)

    async def _look(self, job_id: str) -> None:
        """The answer was lost: if the job is this worker's, begin it. Nobody else would."""
        engine = self._engine
        for rest in _LOOKS:
            await engine.clock.sleep(rest)
            if engine.stopping or engine.hand.find((job_id,)):
                return
            try:
                held = await engine.store.held(engine.info.id)
            except StoreError:
                continue
            # A lease of the worker's own may have brought it meanwhile.
            if any(each.id == job_id for each in held):
                if not engine.hand.find((job_id,)):
                    self._run(next(each for each in held if each.id == job_id))
                return
