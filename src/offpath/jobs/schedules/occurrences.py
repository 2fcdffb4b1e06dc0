"""The occurrences of one due schedule in a tick: those that are made, and those passed over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, assert_never
from uuid import UUID

from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.jobs.schedules.times import EPOCH, NextTime, next_time
from offpath.model.job import NewJob
from offpath.model.options import decode_run, encode_run
from offpath.model.schedule import (
    Firing,
    Missed,
    Occurrence,
    OccurrenceOutcome,
    Overlap,
    Schedule,
    ScheduleRecord,
    Timing,
    TimingKind,
)
from offpath.runtime.ids import derive_id
from offpath.runtime.seats import check_seat
from offpath.runtime.zones import zone_of

if TYPE_CHECKING:
    from offpath.jobs.values.job import Job

Maker = Callable[[datetime], "Job[Any, Any]"]
"""Makes the job of an occurrence; it is given its time, in the zone of a cron expression."""
Template = Callable[[str, "Job[Any, Any]"], "NewJob"]


Make = Callable[[Schedule, datetime], NewJob]
RECORDED = 100
"""Missed occurrences that are recorded at once: of a long outage, the latest."""
WALK = 200
"""Occurrences that are walked through one by one before the latest ones are searched for."""
_MINUTE = timedelta(minutes=1)


def plan(
    record: ScheduleRecord,
    next_time: NextTime,
    now: datetime,
    *,
    attended: bool = False,
    make: Make | None = None,
) -> Firing:
    """The firing of a schedule whose ``next_at`` has come. ``now`` is the store's time, ``make``
    makes the job of an occurrence, a copy of the template by default.

    ``attended``: a worker has watched it wait (``Overlap.QUEUE``), so nothing of it was missed.
    """
    schedule = record.schedule
    first = record.next_at
    if first is None:
        raise AssertionError("a schedule without a next time is not due")
    if attended:
        return _firing(record, (first,), frozenset({first}), next_time(first), make)
    due = due_times(next_time, first, max(first, now), most=max(schedule.missed_limit, RECORDED))
    made = _made(schedule, due, now - timedelta(seconds=schedule.grace))
    if schedule.overlap is not Overlap.ALLOW and len(made) > 1:
        # Each is to see how the one before it is doing: one in a transaction.
        cut = due.index(min(made)) + 1
        return _firing(record, due[:cut], frozenset({due[cut - 1]}), due[cut], make)
    return _firing(record, due, made, next_time(due[-1]), make)


def due_times(
    next_time: NextTime, first: datetime, until: datetime, *, most: int
) -> tuple[datetime, ...]:
    """The occurrences from ``first``, which is one, to ``until``; of many, the latest ``most``."""
    found: deque[datetime] = deque(maxlen=most)
    at: datetime | None = first
    for _ in range(max(WALK, most)):
        if at is None or at > until:
            return tuple(found)
        found.append(at)
        at = next_time(at)
    return _latest(next_time, first, until, most)


def _latest(
    next_time: NextTime, first: datetime, until: datetime, most: int
) -> tuple[datetime, ...]:
    span = _MINUTE
    while True:
        found: deque[datetime] = deque(maxlen=most)
        start = until - span
        at = next_time(start) if start > first else first
        while at is not None and at <= until:
            found.append(at)
            at = next_time(at)
        if len(found) == most or start <= first:
            return tuple(found)
        span *= 2


def _made(schedule: Schedule, due: tuple[datetime, ...], horizon: datetime) -> frozenset[datetime]:
    """The occurrences that become jobs."""
    in_time = [at for at in due if at >= horizon]
    late = [at for at in due if at < horizon]
    match schedule.missed:
        case Missed.SKIP:
            made = in_time
        case Missed.ONE:
            # What is due in time anyway makes up for what was missed.
            made = in_time or late[-1:]
        case Missed.ALL:
            made = late[-schedule.missed_limit :] + in_time
        case _:
            assert_never(schedule.missed)
    return frozenset(made)


def _firing(
    record: ScheduleRecord,
    due: tuple[datetime, ...],
    made: frozenset[datetime],
    next_at: datetime | None,
    make: Make | None,
) -> Firing:
    schedule = record.schedule
    jobs = {at: (make or occurrence_job)(schedule, at) for at in due if at in made}
    return Firing(
        schedule=schedule.name,
        expected=due[0] if record.next_at is None else record.next_at,
        version=record.version,
        next_at=next_at,
        occurrences=tuple(_occurrence(schedule.name, at, jobs.get(at)) for at in due),
        jobs=tuple(jobs.values()),
        # What makes no job overlaps nothing.
        overlap=schedule.overlap if jobs else Overlap.ALLOW,
    )


def _occurrence(name: str, at: datetime, job: NewJob | None) -> Occurrence:
    if job is None:
        return Occurrence(schedule=name, at=at, outcome=OccurrenceOutcome.MISSED)
    return Occurrence(schedule=name, at=at, outcome=OccurrenceOutcome.FIRED, job=job.id)


def occurrence_job(schedule: Schedule, at: datetime, job_id: str | None = None) -> NewJob:
    """The job of an occurrence. Without ``job_id``, its id is derived from schedule and time."""
    template = schedule.template
    options = replace(decode_run(template.options), scheduled_for=at)
    return replace(
        template,
        id=job_id or occurrence_id(schedule.name, at),
        options=encode_run(options),
        run_at=at,
        delay=0.0,
    )


def occurrence_id(name: str, at: datetime) -> str:
    """The id of the job of an occurrence: the same whoever makes it, and sorted by its time."""
    milliseconds = max(int((at - _EPOCH) / _MILLISECOND), 0)
    digest = sha256(name.encode()).digest()
    origin = UUID(bytes=milliseconds.to_bytes(6, "big") + digest[:10])
    return derive_id(str(origin), at.astimezone(UTC).isoformat())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Makers(dict[str, Maker]):
    """The makers of an app, by the names of their schedules."""


def first_made(
    name: str, maker: Maker, timing: Timing, functions: Mapping[str, NextTime], template: Template
) -> NewJob:
    """The job of the first occurrence since 1970, as the schedule's template: the same in every
    process. Raises ``InvalidArgument`` for a function that makes another job when asked again.
    """
    check_seat(maker, f"schedule {name}: the function of its job", plain=True)
    at = next_time(timing, functions)(EPOCH) or EPOCH
    made = template(name, maker(_local(timing, at)))
    if replace(template(name, maker(_local(timing, at))), id=made.id) != made:
        raise InvalidArgument(
            f"the function of schedule {name!r} makes another job each time that it is asked of "
            "the same occurrence: let it depend on the time that it is given alone"
        )
    return made


def job_of(
    schedule: Schedule,
    at: datetime,
    makers: Mapping[str, Maker],
    template: Template,
    job_id: str | None = None,
) -> NewJob:
    """The job of an occurrence. Raises ``InvalidArgument`` for a function that is not here."""
    name = schedule.timing.maker
    if name is None:
        return occurrence_job(schedule, at, job_id)
    if name not in makers:
        raise InvalidArgument(
            f"the job of schedule {schedule.name!r} is made by a function, which this app does not "
            "have: let the app that workers run define the schedule"
        )
    made = template(schedule.name, makers[name](_local(schedule.timing, at)))
    return occurrence_job(replace(schedule, template=made), at, job_id)


def _local(timing: Timing, at: datetime) -> datetime:
    return at.astimezone(zone_of(timing.zone)) if timing.kind is TimingKind.CRON else at
