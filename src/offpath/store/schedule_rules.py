"""The decisions of every backend about schedules, once it holds the schedule's row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from offpath.errors import StoreRejected
from offpath.model import declaration
from offpath.model.job import Enqueued, NewJob
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    Occurrence,
    OccurrenceOutcome,
    Overlap,
    Schedule,
    ScheduleRecord,
)


class Fresh(NamedTuple):
    """The rows that a firing will write."""

    occurrences: list[Occurrence]
    jobs: tuple[NewJob, ...]


def keeps(known: Schedule, new: Schedule) -> bool:
    """True if putting ``new`` leaves ``known`` as it is. The template's id means nothing."""
    # What an operator has changed stays, whichever release starts.
    if new.origin == "code" and known.origin == "api":
        return True
    return replace(known, template=replace(known.template, id=new.template.id)) == new


def fingerprint(schedule: Schedule) -> str:
    """The fingerprint of a definition. The template's id means nothing."""
    return declaration.fingerprint(
        replace(schedule, template=replace(schedule.template, id=""), origin="code")
    )


def retimed(known: Schedule, new: Schedule) -> bool:
    """True if ``new`` comes at other times. If not, what is due by ``known`` stays due."""
    return known.timing != new.timing


def overtaken(record: ScheduleRecord, now: datetime) -> Occurrence | None:
    """The occurrence that a change of times finds due: it is not to be made any more."""
    if record.paused or record.next_at is None or record.next_at > now:
        return None
    return Occurrence(
        schedule=record.schedule.name, at=record.next_at, outcome=OccurrenceOutcome.SKIPPED
    )


def in_utc(at: datetime) -> datetime:
    """The same moment in UTC: in a zone, times of an hour that comes twice do not compare."""
    return at.astimezone(UTC)


def is_stale(record: ScheduleRecord | None, firing: Firing) -> bool:
    """True if the schedule is not the one that the firing was planned for."""
    return (
        record is None
        or record.paused
        or record.version != firing.version
        or record.next_at != in_utc(firing.expected)
    )


def status_of(record: ScheduleRecord, firing: Firing) -> FiringStatus:
    """The fate of a firing that is not stale: the last job decides about an overlap."""
    if not record.last_open or firing.overlap is Overlap.ALLOW:
        return FiringStatus.FIRED
    return FiringStatus.SKIPPED if firing.overlap is Overlap.SKIP else FiringStatus.HELD


def fresh(firing: Firing, known: Collection[datetime], status: FiringStatus) -> Fresh:
    """The occurrences that have no row yet, and their jobs. Raises ``StoreRejected``."""
    moments = {in_utc(one.at): one for one in firing.occurrences}
    new = {at: replace(one, at=at) for at, one in moments.items() if at not in known}
    if status is FiringStatus.SKIPPED:
        return Fresh([_skipped(one) for one in new.values()], ())
    jobs = {job.id: job for job in firing.jobs}
    wanted = [one.job for one in new.values() if one.job is not None]
    for job in wanted:
        if job not in jobs:
            raise StoreRejected(
                f"an occurrence of {firing.schedule!r} has job {job}, which is not given"
            )
    return Fresh(list(new.values()), tuple(jobs[job] for job in wanted))


def answered(
    occurrences: Iterable[Occurrence], answers: Sequence[Enqueued]
) -> Iterator[Occurrence]:
    """The occurrences with the jobs that they have: of an attach, the holder of the key."""
    there = {answer.id: answer.job_id for answer in answers}
    for one in occurrences:
        yield one if one.job is None else replace(one, job=there[one.job])


def last_at(record: ScheduleRecord, firing: Firing) -> datetime | None:
    """The last occurrence after this firing."""
    return in_utc(firing.occurrences[-1].at) if firing.occurrences else record.last_at


def last_job(record: ScheduleRecord, written: Iterable[Occurrence]) -> str | None:
    """The last job after this firing."""
    made = [one.job for one in written if one.job is not None]
    return made[-1] if made else record.last_job


def _skipped(one: Occurrence) -> Occurrence:
    if one.job is None:
        return one
    return replace(one, outcome=OccurrenceOutcome.SKIPPED, job=None)
