"""The instrumented store's schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.job import Enqueued, NewJob
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    Occurrence,
    Schedule,
    ScheduleRecord,
)
from offpath.store import observed
from offpath.store.watching import Watching


class InstrumentedSchedules(Watching):
    """The part of the instrumented store that is a schedule store."""

    async def put_schedule(self, schedule: Schedule, *, next_at: datetime | None) -> ScheduleRecord:
        """As the store does."""
        call = self._inner.put_schedule(schedule, next_at=next_at)
        return await self._timed("put_schedule", call)

    async def schedules(self, names: Sequence[str] = ()) -> list[ScheduleRecord]:
        """As the store does."""
        return await self._timed("schedules", self._inner.schedules(names))

    async def due_schedules(self, *, limit: int) -> tuple[list[ScheduleRecord], float | None]:
        """As the store does."""
        return await self._timed("due_schedules", self._inner.due_schedules(limit=limit))

    async def pause_schedule(
        self, name: str, *, paused: bool, next_at: datetime | None = None
    ) -> bool:
        """As the store does."""
        call = self._inner.pause_schedule(name, paused=paused, next_at=next_at)
        return await self._timed("pause_schedule", call)

    async def delete_schedule(self, name: str) -> bool:
        """As the store does."""
        return await self._timed("delete_schedule", self._inner.delete_schedule(name))

    async def fire(self, firing: Firing) -> FiringStatus:
        """As the store does. Of a firing that was taken, its jobs are presumed to be new."""
        status = await self._timed("fire", self._inner.fire(firing))
        if status is FiringStatus.FIRED:
            self._made(firing.jobs)
        return status

    async def trigger_schedule(self, name: str, job: NewJob, occurrence: Occurrence) -> bool:
        """As the store does. The job is presumed to be new."""
        known = await self._timed(
            "trigger_schedule", self._inner.trigger_schedule(name, job, occurrence)
        )
        if known:
            self._made((job,))
        return known

    async def occurrences(
        self, name: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[Occurrence]:
        """As the store does."""
        call = self._inner.occurrences(name, limit=limit, before=before)
        return await self._timed("occurrences", call)

    async def prune_occurrences(self, *, before: datetime, limit: int) -> int:
        """As the store does."""
        call = self._inner.prune_occurrences(before=before, limit=limit)
        return await self._timed("prune_occurrences", call)

    def _made(self, jobs: Sequence[NewJob]) -> None:
        """These jobs are there. One that attached to the holder of its key is not told apart."""
        answers = [Enqueued(id=job.id, job_id=job.id, created=True) for job in jobs]
        self._moved(observed.enqueued(jobs, answers))
