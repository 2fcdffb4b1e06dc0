"""The blocking verbs of ``app.blocking.schedules``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from datetime import datetime

    from offpath.jobs.blocking.flow import Runs
    from offpath.jobs.schedules.definition import Terms
    from offpath.jobs.schedules.schedules import Schedules
    from offpath.jobs.values.job import Job
    from offpath.model.schedule import Occurrence, ScheduleRecord

    _Records = list[ScheduleRecord]  # inside of the class, `list` is the verb
    _Times = list[datetime]
    _Occurrences = list[Occurrence]


class BlockingSchedules:
    """The verbs of :class:`offpath.jobs.schedules.schedules.Schedules`, blocking.

    What code defines is defined on the app itself: ``app.schedule(...)`` touches no store.
    """

    def __init__(self, client: Runs, schedules: Schedules) -> None:
        self._run = client.run
        self._schedules = schedules

    def create(self, name: str, job: Job[Any, Any], /, **terms: Unpack[Terms]) -> ScheduleRecord:
        """Add a schedule without a deploy: ``schedules.create("x", task.job(), every=60)``.

        The keywords are those of :meth:`offpath.App.schedule`. Creating an equal one again changes
        nothing. Raises ``InvalidArgument``, and ``Conflict`` when the name is another's.
        """
        return self._run(lambda: self._schedules.create(name, job, **terms))

    def change(
        self, name: str, job: Job[Any, Any] | None = None, /, **terms: Unpack[Terms]
    ) -> ScheduleRecord:
        """Change what is given and keep the rest, its pause and its history too.

        Raises ``ScheduleNotFound`` and ``InvalidArgument``.
        """
        return self._run(lambda: self._schedules.change(name, job, **terms))

    def pause(self, name: str, /) -> None:
        """Make no occurrences until it is resumed. Raises ``ScheduleNotFound``."""
        self._run(lambda: self._schedules.pause(name))

    def resume(self, name: str, /) -> None:
        """Go on from now: nothing was missed meanwhile. Raises ``ScheduleNotFound``."""
        self._run(lambda: self._schedules.resume(name))

    def trigger(self, name: str, /) -> str:
        """Make its job now, out of turn, paused or not; returns the job's id.

        Raises ``ScheduleNotFound``.
        """
        return self._run(lambda: self._schedules.trigger(name))

    def delete(self, name: str, /) -> None:
        """Remove it with its history; jobs that it made stay. Raises ``ScheduleNotFound``."""
        self._run(lambda: self._schedules.delete(name))

    def get(self, name: str, /) -> ScheduleRecord:
        """One schedule. Raises ``ScheduleNotFound``."""
        return self._run(lambda: self._schedules.get(name))

    def list(self) -> _Records:
        """All schedules, by name."""
        return self._run(self._schedules.list)

    def next(self, name: str, /, *, count: int = 10) -> _Times:
        """Its next occurrences, in UTC; of a paused one, as if it were resumed now.

        Raises ``ScheduleNotFound``, and ``InvalidArgument`` when its times cannot be computed here.
        """
        return self._run(lambda: self._schedules.next(name, count=count))

    def history(
        self, name: str, /, *, limit: int = 100, before: datetime | None = None
    ) -> _Occurrences:
        """What became of its occurrences, the latest first. Raises ``ScheduleNotFound``."""
        return self._run(lambda: self._schedules.history(name, limit=limit, before=before))
