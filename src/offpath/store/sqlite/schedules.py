"""Schedules, and what became of their occurrences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from offpath.errors import StoreRejected
from offpath.model.effects import Effects
from offpath.model.job import Enqueued, NewJob
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    Occurrence,
    OccurrenceOutcome,
    Schedule,
    ScheduleRecord,
)
from offpath.store import firing as rules
from offpath.store.sql import Row
from offpath.store.sqlite.enqueue import effect_steps
from offpath.store.sqlite.instants import instant, micros
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.part import Part
from offpath.store.sqlite.session import SQL, Session
from offpath.store.unreadable import UNREADABLE_SCHEDULE, Shape, mark

T = TypeVar("T")

LISTED: Final = 10_000
_encode = msgspec.json.Encoder().encode
_definition: Final = msgspec.json.Decoder(Schedule).decode


class Scheduling(Part):
    """The part of the store that implements :class:`~offpath.store.schedules.ScheduleStore`."""

    async def put_schedule(self, schedule: Schedule, *, next_at: datetime | None) -> ScheduleRecord:
        """Add or change one."""
        return await self._write(lambda session: put(session, self._now(), schedule, next_at))

    async def schedules(self, names: Sequence[str] = ()) -> list[ScheduleRecord]:
        """These, or all, by name."""
        return await self._read(lambda session: listed(session, names))

    async def due_schedules(self, *, limit: int) -> tuple[list[ScheduleRecord], float | None]:
        """Those that are due, and seconds until the next one."""
        return await self._read(lambda session: due(session, self._now(), limit))

    async def pause_schedule(
        self, name: str, *, paused: bool, next_at: datetime | None = None
    ) -> bool:
        """Pause or resume one."""
        moved = None if paused or next_at is None else micros(next_at)
        return await self._write(
            lambda session: bool(
                session.run(
                    SQL["schedule_pause"](name=name, paused=paused, next_at=moved, now=self._now())
                )
            )
        )

    async def delete_schedule(self, name: str) -> bool:
        """Remove one with its history."""
        return await self._write(lambda session: delete(session, name))

    async def fire(self, firing: Firing) -> FiringStatus:
        """Settle occurrences."""
        status = await self._write(lambda session: fire(session, self._now(), firing))
        if status is FiringStatus.FIRED:
            self._tell_effects(Effects(jobs=firing.jobs))
        return status

    async def trigger_schedule(self, name: str, job: NewJob, occurrence: Occurrence) -> bool:
        """Make a job of it now."""
        known = await self._write(
            lambda session: trigger(session, self._now(), name, job, occurrence)
        )
        if known:
            self._tell_effects(Effects(jobs=(job,)))
        return known

    async def occurrences(
        self, name: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[Occurrence]:
        """Its history, the latest first."""
        query = SQL["occurrence_list"](
            schedule=name,
            before=None if before is None else micros(before),
            limit=max(limit, 0),
        )
        return await self._read(lambda session: _OCCURRENCES.all(session.run(query)))

    async def prune_occurrences(self, *, before: datetime, limit: int) -> int:
        """Remove old history."""
        query = SQL["occurrence_prune"](before=micros(before), limit=max(limit, 0))
        return await self._write(lambda session: len(session.run(query)))


def put(session: Session, now: int, schedule: Schedule, next_at: datetime | None) -> ScheduleRecord:
    """Add or change a schedule."""
    record = _one(session, schedule.name)
    if record is not None and rules.keeps(record.schedule, schedule):
        return record
    values = {
        "name": schedule.name,
        "definition": _text(schedule),
        "next_at": _maybe_micros(next_at),
        "now": now,
    }
    if record is None:
        session.run(SQL["schedule_add"](**values))
    else:
        retimed = rules.retimed(record.schedule, schedule)
        skipped = rules.overtaken(record, instant(now)) if retimed else None
        if skipped is not None:
            _add(session, now, schedule.name, [skipped])
        last_at = None if skipped is None else micros(skipped.at)
        session.run(SQL["schedule_change"](retimed=retimed, last_at=last_at, **values))
    (made,) = listed(session, [schedule.name])
    return made


def listed(session: Session, names: Sequence[str]) -> list[ScheduleRecord]:
    """These schedules, or all, by name."""
    if names:
        query = SQL["schedule_named"](names=batch(list(names)), limit=LISTED)
    else:
        query = SQL["schedule_list"](limit=LISTED)
    return _RECORDS.all(session.run(query))


def due(session: Session, now: int, limit: int) -> tuple[list[ScheduleRecord], float | None]:
    """What is due, the longest due first, and seconds until the next one."""
    rows = session.run(SQL["schedule_due"](now=now, limit=max(limit, 0)))
    [[following]] = session.run(SQL["schedule_next"](now=now))
    wait = None if following is None else (following - now) / 1_000_000
    return [one for one in _RECORDS.all(rows) if one.unreadable is None], wait


def delete(session: Session, name: str) -> bool:
    """Remove one with its history; False: unknown."""
    session.run(SQL["occurrence_forget"](schedule=name))
    return bool(session.run(SQL["schedule_delete"](name=name)))


def fire(session: Session, now: int, firing: Firing) -> FiringStatus:
    """Write occurrences, their jobs and the next time; or nothing."""
    record = _one(session, firing.schedule)
    if record is None or rules.is_stale(record, firing):
        return FiringStatus.STALE
    status = rules.status_of(record, firing)
    if status is FiringStatus.HELD:
        return status
    times = batch([micros(one.at) for one in firing.occurrences])
    known = session.run(SQL["occurrence_known"](schedule=firing.schedule, times=times))
    fresh = rules.fresh(firing, {instant(at) for (at,) in known}, status)
    next_at = _maybe_micros(firing.next_at)
    # The jobs go first: what refuses them has then written nothing.
    answers = session.drive(effect_steps(Effects(jobs=fresh.jobs), now)) if fresh.jobs else []
    written = list(rules.answered(fresh.occurrences, answers))
    _add(session, now, firing.schedule, written)
    session.run(
        SQL["schedule_fired"](
            name=firing.schedule,
            next_at=next_at,
            last_at=_maybe_micros(rules.last_at(record, firing)),
            last_job=rules.last_job(record, written),
        )
    )
    return status


def trigger(session: Session, now: int, name: str, job: NewJob, occurrence: Occurrence) -> bool:
    """Make a job out of turn; False: unknown."""
    if _one(session, name) is None:
        return False
    answers: list[Enqueued] = session.drive(effect_steps(Effects(jobs=(job,)), now))
    _add(session, now, name, list(rules.answered([replace(occurrence, job=job.id)], answers)))
    return True


def _add(session: Session, now: int, name: str, occurrences: Sequence[Occurrence]) -> None:
    if occurrences:
        rows = batch([(micros(one.at), one.outcome.value, one.job) for one in occurrences])
        session.run(SQL["occurrence_add"](schedule=name, rows=rows, now=now))


def _one(session: Session, name: str) -> ScheduleRecord | None:
    return next(iter(listed(session, [name])), None)


def _text(schedule: Schedule) -> str:
    try:
        return _encode(schedule).decode()
    except UnicodeEncodeError as error:
        message = "a schedule holds a lone surrogate (half a character), which cannot be stored"
        raise StoreRejected(message) from error


def _maybe_micros(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _record(row: Row) -> ScheduleRecord:
    return ScheduleRecord(
        schedule=_definition(row[0]),
        paused=bool(row[1]),
        next_at=instant(row[2]),
        created_at=instant(row[3]),
        updated_at=instant(row[4]),
        version=row[5],
        last_at=instant(row[6]),
        last_job=row[7],
        last_open=bool(row[8]),
    )


_RECORDS: Final = Shape(
    _record,
    (
        "definition",
        "paused",
        "next_at",
        "created_at",
        "updated_at",
        "version",
        "last_at",
        "last_job",
        "last_open",
    ),
    (UNREADABLE_SCHEDULE, 1, None, 0, 0, 1, None, None, 0),
    lambda record, bad: replace(record, unreadable=mark(bad)),
)


def _occurrence(row: Row) -> Occurrence:
    return Occurrence(
        schedule=row[0],
        at=instant(row[1]),
        outcome=OccurrenceOutcome(row[2]),
        job=row[3],
        made_at=instant(row[4]),
    )


_OCCURRENCES: Final = Shape(
    _occurrence,
    ("schedule", "at", "outcome", "job", "made_at"),
    ("", 0, "skipped", None, 0),
    lambda occurrence, _: occurrence,
)
