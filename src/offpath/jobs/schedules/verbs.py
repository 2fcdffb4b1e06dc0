"""``app.schedule``: how an app is told about schedules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from offpath.jobs.schedules.schedules import Schedules

if TYPE_CHECKING:
    from offpath.jobs.schedules.definition import Terms
    from offpath.jobs.schedules.occurrences import Maker
    from offpath.jobs.values.job import Job
    from offpath.model.schedule import Schedule

F = TypeVar("F", bound=Callable[[datetime], datetime | None])


class ScheduleVerbs:
    """The verbs of an app for schedules."""

    schedules: Schedules
    """The schedules of the store: create, change, pause, resume, trigger, delete, look at."""

    def schedule(
        self, name: str, job: Job[Any, Any] | Maker, /, **terms: Unpack[Terms]
    ) -> Schedule:
        """Make a job by itself: ``app.schedule("nightly", report.job(), cron="0 3 * * *")``.

        Instead of a job it takes a function of the occurrence's time that makes one, as
        ``lambda at: report.job(at.date())``; it must depend on that time alone.

        Workers put it into the store when they start, and once per occurrence in the whole fleet
        one of them makes a job like ``job``. Exactly one of ``cron`` (with a ``zone``), ``every``
        (seconds, with an ``anchor``) and ``when`` (a next-time function) says when. ``overlap``
        (``allow``, ``skip``, ``queue``) decides while the job before has not ended, ``missed``
        (``one``, ``skip``, ``all``) what becomes of occurrences that are ``grace`` seconds late
        since no worker ran.

        A schedule that is no longer in the code stays in the store until it is deleted. Raises
        ``InvalidArgument``: for an expression that cannot be, a date that never comes, an unknown
        zone, an interval under a second, a second schedule of the name.
        """
        return self.schedules.define(name, job, **terms)

    def next_time(self, function: F, /) -> F:
        """Register a next-time function by its name: ``@app.next_time`` above a ``def``.

        It is given a time and returns the first occurrence after it, None when there is none any
        more. It must depend on that time alone. Schedules name it: ``when="quarter_end"``. Raises
        ``InvalidArgument`` when the name is another's.
        """
        self.schedules.functions.register(function)
        return function
