"""Schedules, and what became of their occurrences.

Whatever changes a schedule locks its row first; see the lock order in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    Occurrence,
    OccurrenceOutcome,
    Schedule,
    ScheduleRecord,
)
from offpath.store import schedule_rules as rules
from offpath.store.hints import Hint, hints_of
from offpath.store.programs.answers import OccurrenceRow, ScheduleRow
from offpath.store.programs.dialect import Dialect, Send, Steps, ask, one
from offpath.store.programs.instants import instant
from offpath.store.unreadable import UNREADABLE_SCHEDULE, Shape, mark, raw_text

_definition: Final = msgspec.json.Decoder(Schedule).decode


class _NewOccurrence(msgspec.Struct):
    """A row that ``add_occurrences`` takes."""

    at: Any
    outcome: str
    job: str | None


def put(d: Dialect, schedule: Schedule, *, next_at: datetime | None) -> Steps[ScheduleRecord]:
    """Add a schedule, or change the one of that name."""
    values = {
        "name": schedule.name,
        "definition": d.json(schedule),
        "next_at": d.at(next_at),
        "now": d.now,
    }
    if not (yield from ask(d.sql["add_schedule"](**values))):
        record = yield from _locked(d, schedule.name)
        if record is None:  # it was deleted between the two
            yield from ask(d.sql["add_schedule"](**values))
        # Each process puts its schedules as it starts: an equal one costs no write.
        elif rules.keeps(record.schedule, schedule):
            return record
        else:
            yield from _change(d, record, schedule, values)
    return (yield from listed(d, [schedule.name]))[0]


def _change(
    d: Dialect, record: ScheduleRecord, schedule: Schedule, values: dict[str, Any]
) -> Steps[None]:
    """Write another definition. What is due by times that are no more is recorded as skipped."""
    retimed = rules.retimed(record.schedule, schedule)
    skipped: list[Occurrence] = []
    if retimed:
        due = yield from ask(d.sql["overtaken_schedule"](name=schedule.name, now=d.now))
        skipped = [
            Occurrence(schedule=schedule.name, at=instant(at), outcome=OccurrenceOutcome.SKIPPED)
            for (at,) in due
        ]
        # Before the new times are written, by which these could no longer be told.
        yield from _add(d, schedule.name, skipped)
    last_at = d.at(skipped[0].at) if skipped else None
    yield from ask(d.sql["change_schedule"](retimed=int(retimed), last_at=last_at, **values))


def listed(d: Dialect, names: Sequence[str] = ()) -> Steps[list[ScheduleRecord]]:
    """The schedules of these names, or all, by name."""
    query = d.sql["schedules"](names=d.batch(list(names))) if names else d.sql["all_schedules"]()
    return _RECORDS.all((yield from ask(query)))


def due(d: Dialect, *, limit: int) -> Steps[tuple[list[ScheduleRecord], float | None]]:
    """The schedules that are due, the longest due first, and seconds until the next one."""
    found = d.sql["due_schedules"](now=d.now, limit=max(limit, 0))
    rows, [[wait]] = yield Send((found, d.sql["next_schedule"](now=d.now)), last=True)
    # What cannot be read is not fired: neutral values stand for its times and its job.
    readable = [each for each in _RECORDS.all(rows) if each.unreadable is None]
    return readable, None if wait is None else wait / 1_000_000


def pause(d: Dialect, name: str, *, paused: bool, next_at: datetime | None = None) -> Steps[bool]:
    """Pause or resume one; False: unknown."""
    moved = None if paused else d.at(next_at)
    query = d.sql["pause_schedule"](name=name, paused=int(paused), next_at=moved, now=d.now)
    return bool((yield from one(query)))


def delete(d: Dialect, name: str) -> Steps[bool]:
    """Remove one with its history; False: unknown."""
    known = yield from ask(d.sql["delete_schedule"](name=name))
    if not known:  # one that another transaction adds in this moment keeps its history
        return False
    yield from ask(d.sql["forget_occurrences"](name=name), last=True)
    return True


def fire(d: Dialect, firing: Firing) -> Steps[FiringStatus]:
    """Write occurrences, their jobs and the next time; or nothing."""
    # The row first: all that is compared below is true until the commit.
    record = yield from _locked(d, firing.schedule)
    # Another worker may have fired it, or a release changed it, since this firing was planned.
    if record is None or rules.is_stale(record, firing):
        return FiringStatus.STALE
    status = rules.status_of(record, firing)
    if status is FiringStatus.HELD:
        return status
    # An occurrence is made once, whoever planned it: those that are there are left out.
    times = d.batch([d.at(each.at) for each in firing.occurrences])
    rows = yield from ask(d.sql["known_occurrences"](name=firing.schedule, times=times))
    fresh = rules.fresh(firing, {instant(at) for (at,) in rows}, status)
    # The jobs go first: what refuses them has then written nothing.
    answers, last_steps = yield from d.commit(Effects(jobs=fresh.jobs))
    written = list(rules.answered(fresh.occurrences, answers))
    yield from _add(d, firing.schedule, written)
    yield from ask(
        d.sql["fired_schedule"](
            name=firing.schedule,
            next_at=d.at(firing.next_at),
            last_at=d.at(rules.last_at(record, firing)),
            last_job=rules.last_job(record, written),
        )
    )
    yield from last_steps
    if status is FiringStatus.FIRED:
        d.announced.tell(*hints_of(Effects(jobs=firing.jobs)))
    return status


def trigger(d: Dialect, name: str, job: NewJob, occurrence: Occurrence) -> Steps[bool]:
    """Make a job out of turn; False: unknown."""
    # Locked: otherwise a delete in this moment would leave the occurrence behind.
    if (yield from _locked(d, name)) is None:
        return False
    answers, last_steps = yield from d.commit(Effects(jobs=(job,)))
    yield from _add(d, name, list(rules.answered([replace(occurrence, job=job.id)], answers)))
    yield from last_steps
    d.announced.tell(Hint.WORK)
    return True


def occurrences(
    d: Dialect, name: str, *, limit: int = 100, before: datetime | None = None
) -> Steps[list[Occurrence]]:
    """The history of a schedule, the latest first."""
    query = d.sql["occurrences"](name=name, before=d.at(before), limit=max(limit, 0))
    return _OCCURRENCES.all((yield from one(query)))


def prune(d: Dialect, *, before: datetime, limit: int) -> Steps[int]:
    """Remove old history; returns how many."""
    query = d.sql["prune_occurrences"](before=d.at(before), limit=max(limit, 0))
    return len((yield from one(query)))


def _locked(d: Dialect, name: str) -> Steps[ScheduleRecord | None]:
    """The schedule, read after its row was locked: a statement that waited sees an older job."""
    lock = d.sql["lock_schedule"](name=name)
    _, rows = yield Send((lock, d.sql["schedules"](names=d.batch([name]))))
    return next(iter(_RECORDS.all(rows)), None)


def _add(d: Dialect, name: str, occurrences: Sequence[Occurrence]) -> Steps[None]:
    if occurrences:
        rows = [_NewOccurrence(d.at(one.at), one.outcome.value, one.job) for one in occurrences]
        yield from ask(d.sql["add_occurrences"](name=name, batch=d.batch(rows), now=d.now))


def _record(row: ScheduleRow) -> ScheduleRecord:
    schedule = _definition(row.definition)
    named = schedule.name == row.name
    return ScheduleRecord(
        schedule=schedule if named else replace(schedule, name=row.name),
        paused=bool(row.paused),
        next_at=instant(row.next_at),
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        version=row.version,
        last_at=instant(row.last_at),
        last_job=row.last_job,
        last_open=bool(row.last_open),
        # Fired by the name of its definition, it would find another row and stay due for ever.
        unreadable=None if named else mark({"definition": raw_text(row.definition)}),
    )


_RECORDS: Final = Shape.of(
    ScheduleRow("", UNREADABLE_SCHEDULE, 1, None, 0, 0, 1, None, None, 0),
    _record,
    lambda record, bad: replace(record, unreadable=mark(bad)),
)


def _occurrence(row: OccurrenceRow) -> Occurrence:
    return Occurrence(
        schedule=row.schedule,
        at=instant(row.at),
        outcome=OccurrenceOutcome(row.outcome),
        job=row.job,
        made_at=instant(row.made_at),
    )


_OCCURRENCES: Final = Shape.of(
    OccurrenceRow("", 0, "skipped", None, 0), _occurrence, lambda occurrence, _: occurrence
)
