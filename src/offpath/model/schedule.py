"""Schedules: when jobs are to be made by themselves, and what became of each occasion."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.model.job import NewJob
from offpath.model.quiet import Quiet


class Overlap(StrEnum):
    """The policy when an occurrence is due while the job of the one before has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    """It is passed over, and recorded so."""
    QUEUE = "queue"
    """It waits in the schedule until that job has ended."""


class Missed(StrEnum):
    """The policy for occurrences that were due while no worker ran."""

    SKIP = "skip"
    ONE = "one"
    """The latest one is made up for."""
    ALL = "all"
    """Each is made up for, the oldest first, up to a limit."""


class TimingKind(StrEnum):
    """The kinds of timing of a schedule."""

    CRON = "cron"
    EVERY = "every"
    FUNCTION = "function"


class Timing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The times of a schedule: exactly the fields of its kind are given."""

    kind: TimingKind
    expression: str | None = None
    """A cron expression, or a name like ``@daily``."""
    zone: str = "UTC"
    """The IANA zone that a cron expression is read in."""
    seconds: float | None = None
    """Of an interval: the distance of two occurrences, counted from ``anchor``."""
    anchor: datetime | None = None
    function: str | None = None
    """The name under which a next-time function is registered."""
    maker: str | None = None
    """The name under which a function is registered that makes the job of an occurrence; None: each
    copies the template."""


class Schedule(Quiet, frozen=True, kw_only=True):
    """A schedule as it is defined. ``template`` is the job to make; its id and times are unused."""

    name: str
    timing: Timing
    template: NewJob
    overlap: Overlap = Overlap.ALLOW
    missed: Missed = Missed.ONE
    missed_limit: int = 100
    """Most occurrences that are made up for at once with ``Missed.ALL``."""
    grace: float = 60.0
    """Seconds after which an occurrence that was not made yet counts as missed."""
    origin: str = "code"
    """``code`` or ``api``: who defined it. What code defines again does not undo a pause."""


class ScheduleRecord(Quiet, frozen=True, kw_only=True):
    """A schedule as the store has it."""

    schedule: Schedule
    paused: bool
    next_at: datetime | None
    """The next occurrence; None when there is none any more."""
    created_at: datetime
    updated_at: datetime
    version: int
    """Grows with each change of the definition."""
    last_at: datetime | None = None
    """The last occurrence that was settled, whatever its outcome."""
    last_job: str | None = None
    """The job of the last occurrence that made one."""
    last_open: bool = False
    """True if that job has not ended."""
    unreadable: str | None = None
    """The columns of its row that cannot be read, with their content: it does not fire."""


class OccurrenceOutcome(StrEnum):
    """The outcome of an occurrence."""

    FIRED = "fired"
    SKIPPED = "skipped"
    """The job before had not ended; or, due and not made yet, it met a change of its schedule's
    times."""
    MISSED = "missed"
    """No worker ran when it was due, and it was not to be made up for."""
    TRIGGERED = "triggered"
    """By hand, out of turn."""


class Occurrence(Struct, frozen=True, kw_only=True):
    """One occasion of a schedule. ``(schedule, at)`` is there once, whoever tries."""

    schedule: str
    at: datetime
    """The time that it stands for, not the time at which it was made."""
    outcome: OccurrenceOutcome
    job: str | None = None
    made_at: datetime | None = None
    """Set by the store."""


class Firing(Struct, frozen=True, kw_only=True):
    """The writes of a tick for one schedule, in one transaction with its next time.

    The jobs of ``occurrences`` are in ``jobs``, in their order, with ids derived from schedule and
    time, so that a repeat changes nothing.
    """

    schedule: str
    expected: datetime
    """The ``next_at`` that was read: another one, and nothing is written."""
    version: int
    next_at: datetime | None
    occurrences: tuple[Occurrence, ...]
    jobs: tuple[NewJob, ...] = ()
    overlap: Overlap = Overlap.ALLOW


class FiringStatus(StrEnum):
    """The outcome of a firing."""

    FIRED = "fired"
    SKIPPED = "skipped"
    """``Overlap.SKIP``, and the last job was open: recorded as skipped, ``next_at`` moved."""
    HELD = "held"
    """``Overlap.QUEUE``, and the last job was open: nothing was written."""
    STALE = "stale"
    """Somebody else was quicker, or the schedule was changed, paused or deleted."""
