"""The part of the store that holds schedules. The rules of the store's protocol hold here too."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from offpath.model.job import NewJob
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    Occurrence,
    Schedule,
    ScheduleRecord,
)
from offpath.store.absence import none_of, refused
from offpath.store.capabilities import Profile


class ScheduleStore(Protocol):
    """Schedules and what became of their occurrences."""

    async def put_schedule(self, schedule: Schedule, *, next_at: datetime | None) -> ScheduleRecord:
        """Add a schedule, or change the one of that name. ``next_at`` is its next occurrence.

        An equal definition changes nothing (``next_at`` neither). A changed one raises ``version``
        and takes ``next_at``; but what is due stays due where the timing is the same, and is
        recorded as skipped where it is another one, unless a pause holds it. A pause, the last job
        and the history are kept. A definition of origin ``code`` does not replace one that was made
        or changed through the API (``origin='api'``): that record is answered as it is.
        """
        ...

    async def schedules(self, names: Sequence[str] = ()) -> list[ScheduleRecord]:
        """The schedules of these names, or all, by name (at most 10,000)."""
        ...

    async def due_schedules(self, *, limit: int) -> tuple[list[ScheduleRecord], float | None]:
        """Schedules that are not paused and whose ``next_at`` has come by the store's clock, the
        longest due first; and seconds until the next one that is not due yet (None: there is none).
        """
        ...

    async def pause_schedule(
        self, name: str, *, paused: bool, next_at: datetime | None = None
    ) -> bool:
        """Pause or resume; resuming takes ``next_at`` when given. False: unknown."""
        ...

    async def delete_schedule(self, name: str) -> bool:
        """Remove it with its history; jobs that it made stay. False: unknown."""
        ...

    async def fire(self, firing: Firing) -> FiringStatus:
        """Settle occurrences: their rows, their jobs and ``next_at``, in one transaction.

        The schedule's row is locked, then ``expected``, ``version`` and the pause are compared,
        then overlap is decided by the state of the last job. An occurrence that has a row already
        is left as it is, and its job is not made. A last job that was deleted or pruned has ended.

        Jobs are added as by ``commit``: one that attaches to the holder of its unique key is
        recorded with the holder's id. A conflict is raised and nothing is written, so that the
        occurrence stays due.
        """
        ...

    async def trigger_schedule(self, name: str, job: NewJob, occurrence: Occurrence) -> bool:
        """Make a job of it now, out of turn, and record it. False: unknown. ``next_at`` stays, and
        so does the last job. The job is added as by ``commit``, whose conflicts are raised.
        """
        ...

    async def occurrences(
        self, name: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[Occurrence]:
        """The fates of its occurrences, the latest first, those before a time if given."""
        ...

    async def prune_occurrences(self, *, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` occurrences made before that time; returns how many."""
        ...


class WithoutSchedules:
    """A store without schedules."""

    put_schedule = refused(Profile.SCHEDULES, ScheduleStore.put_schedule)
    schedules = none_of(ScheduleStore.schedules, list)
    due_schedules = none_of(ScheduleStore.due_schedules, lambda: ([], None))
    pause_schedule = refused(Profile.SCHEDULES, ScheduleStore.pause_schedule)
    delete_schedule = refused(Profile.SCHEDULES, ScheduleStore.delete_schedule)
    fire = refused(Profile.SCHEDULES, ScheduleStore.fire)
    trigger_schedule = refused(Profile.SCHEDULES, ScheduleStore.trigger_schedule)
    occurrences = refused(Profile.SCHEDULES, ScheduleStore.occurrences)
    prune_occurrences = none_of(ScheduleStore.prune_occurrences, lambda: 0)
