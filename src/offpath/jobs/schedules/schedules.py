"""``app.schedules``: what the code defines, and what can be done with schedules at run time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from offpath.errors import Conflict, InvalidArgument, ScheduleNotFound
from offpath.jobs.schedules.definition import Functions, Terms, changed, defined, template_of
from offpath.jobs.schedules.occurrences import Maker, Makers, job_of
from offpath.jobs.schedules.ticker import OccurrenceStore, Ticker
from offpath.jobs.schedules.times import NextTime, next_time
from offpath.model import checks
from offpath.model.schedule import Occurrence, OccurrenceOutcome, Schedule, ScheduleRecord

if TYPE_CHECKING:
    from offpath.jobs.values.job import Job
    from offpath.model.job import NewJob
    from offpath.runtime.clock import Clock
    from offpath.runtime.tasks import Report

_Records = list[ScheduleRecord]  # inside of the class, `list` is the verb
_Times = list[datetime]
_Occurrences = list[Occurrence]


class Schedules:
    """Schedules of the store, by name: create, change, pause, resume, trigger, delete, look at."""

    def __init__(
        self, opened: Callable[[], Awaitable[OccurrenceStore]], new_id: Callable[[], str]
    ) -> None:
        self._opened = opened
        self._new_id = new_id
        self.definitions: dict[str, Schedule] = {}
        """The schedules that the code of this app defines; workers put them when they start."""
        self.functions = Functions()
        """The next-time functions of this app."""
        self.makers = Makers()
        """The functions of this app that make jobs of occurrences."""

    # -- in code ---------------------------------------------------------------------------------

    def define(self, name: str, job: Job[Any, Any] | Maker, /, **terms: Unpack[Terms]) -> Schedule:
        """Have a schedule put by every worker that starts; see :meth:`offpath.App.schedule`."""
        if name in self.definitions:
            raise InvalidArgument(f"there is a schedule {name!r} already: give this one a new name")
        made = defined(name, job, terms, self.functions, origin="code", makers=self.makers)
        self.definitions[name] = made
        return made

    def make(self, schedule: Schedule, at: datetime, job_id: str | None = None) -> NewJob:
        """The job of an occurrence. Raises ``InvalidArgument`` for a function that is not here."""
        return job_of(schedule, at, self.makers, template_of, job_id)

    def ticker(self, clock: Clock, report: Report, store: OccurrenceStore | None = None) -> Ticker:
        """The ticker that fires due schedules for one worker; on this app's store by default."""

        async def given() -> OccurrenceStore:
            return await self._opened() if store is None else store

        return Ticker(self, given, clock, report)

    # -- at run time -----------------------------------------------------------------------------

    async def create(
        self, name: str, job: Job[Any, Any], /, **terms: Unpack[Terms]
    ) -> ScheduleRecord:
        """Add a schedule without a deploy: ``app.schedules.create("x", task.job(), every=60)``.

        The keywords are those of :meth:`offpath.App.schedule`. Creating an equal one again changes
        nothing. Raises ``InvalidArgument``, and ``Conflict`` when the name is another's.
        """
        made = defined(name, job, terms, self.functions, origin="api")
        store = await self._opened()
        at = self._times(made)(await store.ping())
        for record in await store.schedules((name,)):
            if record.schedule != made:
                raise Conflict(
                    f"there is another schedule {name!r} already: change it or delete it first"
                )
        return await store.put_schedule(made, next_at=at)

    async def change(
        self, name: str, job: Job[Any, Any] | None = None, /, **terms: Unpack[Terms]
    ) -> ScheduleRecord:
        """Change what is given and keep the rest, its pause and its history too.

        From then on it is the API's: what code defines under this name does not replace it until
        it is deleted. Raises ``ScheduleNotFound`` and ``InvalidArgument``.
        """
        store = await self._opened()
        record = await self._record(store, name)
        made = changed(record.schedule, job, terms, self.functions)
        at = record.next_at
        if made.timing != record.schedule.timing:
            at = self._times(made)(await store.ping())
        return await store.put_schedule(made, next_at=at)

    async def pause(self, name: str, /) -> None:
        """Make no occurrences until it is resumed. Raises ``ScheduleNotFound``."""
        store = await self._opened()
        if not await store.pause_schedule(_name(name), paused=True):
            raise _unknown(name)

    async def resume(self, name: str, /) -> None:
        """Go on from now: what was due during the pause was not missed, it was not to be.

        Raises ``ScheduleNotFound``.
        """
        store = await self._opened()
        record = await self._record(store, name)
        if not record.paused:
            return
        at = self._times(record.schedule)(await store.ping())
        if not await store.pause_schedule(name, paused=False, next_at=at):
            raise _unknown(name)

    async def trigger(self, name: str, /) -> str:
        """Make its job now, out of turn, paused or not; returns the job's id.

        Its next occurrence stays where it is. Raises ``ScheduleNotFound``.
        """
        store = await self._opened()
        record = await self._record(store, name)
        now = await store.ping()
        job = self.make(record.schedule, now, self._new_id())
        made = Occurrence(schedule=name, at=now, outcome=OccurrenceOutcome.TRIGGERED, job=job.id)
        if not await store.trigger_schedule(name, job, made):
            raise _unknown(name)
        return job.id

    async def delete(self, name: str, /) -> None:
        """Remove it with its history; jobs that it made stay. Raises ``ScheduleNotFound``.

        A schedule that code still defines comes back when the next worker starts.
        """
        store = await self._opened()
        if not await store.delete_schedule(_name(name)):
            raise _unknown(name)

    async def get(self, name: str, /) -> ScheduleRecord:
        """One schedule. Raises ``ScheduleNotFound``."""
        return await self._record(await self._opened(), name)

    async def list(self) -> _Records:
        """All schedules, by name."""
        return await (await self._opened()).schedules()

    async def next(self, name: str, /, *, count: int = 10) -> _Times:
        """Its next occurrences, in UTC; of a paused one, as if it were resumed now.

        Raises ``ScheduleNotFound``, and ``InvalidArgument`` when its times cannot be computed here.
        """
        checks.integer(count, "count", least=1, most=checks.MOST_LISTED)
        store = await self._opened()
        record = await self._record(store, name)
        times = self._times(record.schedule)
        at = times(await store.ping()) if record.paused else record.next_at
        found: _Times = []
        while at is not None and len(found) < count:
            found.append(at)
            at = times(at)
        return found

    async def history(
        self, name: str, /, *, limit: int = 100, before: datetime | None = None
    ) -> _Occurrences:
        """The fates of its occurrences, the latest first. Raises ``ScheduleNotFound``.

        ``before`` is the ``at`` of the last one of the page before.
        """
        checks.integer(limit, "limit", least=1, most=checks.MOST_LISTED)
        until = None if before is None else checks.aware(before, "before")
        store = await self._opened()
        await self._record(store, name)
        return await store.occurrences(name, limit=limit, before=until)

    def _times(self, schedule: Schedule) -> NextTime:
        return next_time(schedule.timing, self.functions)

    async def _record(self, store: OccurrenceStore, name: str) -> ScheduleRecord:
        found = await store.schedules((_name(name),))
        if not found:
            raise _unknown(name)
        return found[0]


def _name(name: str) -> str:
    return checks.name(name, "schedule name")


def _unknown(name: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"there is no schedule {name!r}")
