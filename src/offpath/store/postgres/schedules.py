"""Schedules, and what became of their occurrences.

Whatever changes a schedule locks its row first; see the lock order in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

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
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.part import Part
from offpath.store.postgres.steps import Steps, ask, embed, from_micros, moment, one, to_json
from offpath.store.sql import Catalogue, Row
from offpath.store.unreadable import UNREADABLE_SCHEDULE, Shape, mark

_definition: Final = msgspec.json.Decoder(Schedule).decode


class ScheduleTables(Part):
    """Schedules on Postgres; each method is one transaction."""

    async def put_schedule(self, schedule: Schedule, *, next_at: datetime | None) -> ScheduleRecord:
        """Add or change one."""
        now, sql = self._now(), self._sql
        return await self._database.write(lambda: put_steps(schedule, next_at, now, sql=sql))

    async def schedules(self, names: Sequence[str] = ()) -> list[ScheduleRecord]:
        """These, or all, by name."""
        return await self._database.call(lambda: listed_steps(names, sql=self._sql))

    async def due_schedules(self, *, limit: int) -> tuple[list[ScheduleRecord], float | None]:
        """Those that are due, and seconds until the next one."""
        now, sql = self._now(), self._sql
        return await self._database.write(lambda: due_steps(limit, now, sql=sql))

    async def pause_schedule(
        self, name: str, *, paused: bool, next_at: datetime | None = None
    ) -> bool:
        """Pause or resume one."""
        query = self._sql["pause_schedule"](
            name=name,
            paused=int(paused),
            next_at=None if paused else moment(next_at),
            now=moment(self._now()),
        )
        return bool(await self._database.write(lambda: one(query)))

    async def delete_schedule(self, name: str) -> bool:
        """Remove one with its history."""
        return await self._database.write(lambda: delete_steps(name, sql=self._sql))

    async def fire(self, firing: Firing) -> FiringStatus:
        """Settle occurrences."""
        now, sql = self._now(), self._sql
        status = await self._database.write(lambda: fire_steps(firing, now, sql=sql))
        if status is FiringStatus.FIRED:
            self._tell_effects(Effects(jobs=firing.jobs))
        return status

    async def trigger_schedule(self, name: str, job: NewJob, occurrence: Occurrence) -> bool:
        """Make a job of it now."""
        now, sql = self._now(), self._sql
        known = await self._database.write(
            lambda: trigger_steps(name, job, occurrence, now, sql=sql)
        )
        if known:
            self._tell_effects(Effects(jobs=(job,)))
        return known

    async def occurrences(
        self, name: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[Occurrence]:
        """Its history, the latest first."""
        query = self._sql["occurrences"](name=name, before=moment(before), limit=max(limit, 0))
        rows = await self._database.write(lambda: one(query))
        return _OCCURRENCES.all(rows)

    async def prune_occurrences(self, *, before: datetime, limit: int) -> int:
        """Remove old history."""
        query = self._sql["prune_occurrences"](before=moment(before), limit=max(limit, 0))
        return len(await self._database.write(lambda: one(query)))


def put_steps(
    schedule: Schedule, next_at: datetime | None, now: datetime | None, *, sql: Catalogue
) -> Steps[ScheduleRecord]:
    """Add a schedule, or change the one of that name."""
    values = {
        "name": schedule.name,
        "definition": to_json(schedule),
        "next_at": moment(next_at),
        "now": moment(now),
    }
    added = yield from ask(sql["add_schedule"](**values))
    if not added:
        record = yield from _locked(schedule.name, sql)
        if record is None:  # it was deleted between the two
            yield from ask(sql["add_schedule"](**values))
        elif not rules.keeps(record.schedule, schedule):
            retimed = rules.retimed(record.schedule, schedule)
            yield from ask(sql["change_schedule"](retimed=int(retimed), **values))
    return (yield from listed_steps([schedule.name], sql=sql))[0]


def listed_steps(names: Sequence[str], *, sql: Catalogue) -> Steps[list[ScheduleRecord]]:
    """These schedules, or all, by name."""
    query = sql["schedules"](names=to_json(list(names)) if names else None)
    return _RECORDS.all((yield from ask(query)))


def due_steps(
    limit: int, now: datetime | None, *, sql: Catalogue
) -> Steps[tuple[list[ScheduleRecord], float | None]]:
    """What is due, the longest due first, and seconds until the next one."""
    rows = yield from ask(sql["due_schedules"](now=moment(now), limit=max(limit, 0)))
    [[wait]] = yield from ask(sql["next_schedule"](now=moment(now)), last=True)
    readable = [one for one in _RECORDS.all(rows) if one.unreadable is None]
    return readable, None if wait is None else wait / 1_000_000


def delete_steps(name: str, *, sql: Catalogue) -> Steps[bool]:
    """Remove one with its history; False: unknown."""
    known = yield from ask(sql["delete_schedule"](name=name))
    yield from ask(sql["forget_occurrences"](name=name), last=True)
    return bool(known)


def fire_steps(firing: Firing, now: datetime | None, *, sql: Catalogue) -> Steps[FiringStatus]:
    """Write occurrences, their jobs and the next time; or nothing."""
    record = yield from _locked(firing.schedule, sql)
    if record is None or rules.is_stale(record, firing):
        return FiringStatus.STALE
    status = rules.status_of(record, firing)
    if status is FiringStatus.HELD:
        return status
    times = to_json([moment(each.at) for each in firing.occurrences])
    rows = yield from ask(sql["known_occurrences"](name=firing.schedule, times=times))
    fresh = rules.fresh(firing, {from_micros(at) for (at,) in rows}, status)

    answers, work = yield from embed(carry_out({0: Effects(jobs=fresh.jobs)}, now, sql=sql))
    written = list(rules.answered(fresh.occurrences, answers[0]))
    yield from _add(firing.schedule, written, now, sql)
    yield from ask(
        sql["fired_schedule"](
            name=firing.schedule,
            next_at=moment(firing.next_at),
            last_at=moment(rules.last_at(record, firing)),
            last_job=rules.last_job(record, written),
        )
    )
    yield from work.lasting(now, sql=sql)
    return status


def trigger_steps(
    name: str, job: NewJob, occurrence: Occurrence, now: datetime | None, *, sql: Catalogue
) -> Steps[bool]:
    """Make a job out of turn; False: unknown."""
    if (yield from _locked(name, sql)) is None:
        return False
    answers, work = yield from embed(carry_out({0: Effects(jobs=(job,))}, now, sql=sql))
    told: tuple[Enqueued, ...] = answers[0]
    yield from _add(name, list(rules.answered([replace(occurrence, job=job.id)], told)), now, sql)
    yield from work.lasting(now, sql=sql)
    return True


def _locked(name: str, sql: Catalogue) -> Steps[ScheduleRecord | None]:
    """The schedule, read after its row was locked: a statement that waited sees an older job."""
    if not (yield from ask(sql["lock_schedule"](name=name))):
        return None
    return (yield from listed_steps([name], sql=sql))[0]


def _add(
    name: str, occurrences: Sequence[Occurrence], now: datetime | None, sql: Catalogue
) -> Steps[None]:
    if occurrences:
        batch = to_json(
            [
                {"at": moment(each.at), "outcome": each.outcome, "job": each.job}
                for each in occurrences
            ]
        )
        yield from ask(sql["add_occurrences"](name=name, batch=batch, now=moment(now)))


def _record(row: Row) -> ScheduleRecord:
    return ScheduleRecord(
        schedule=_definition(row[0]),
        paused=bool(row[1]),
        next_at=_maybe(row[2]),
        created_at=from_micros(row[3]),
        updated_at=from_micros(row[4]),
        version=row[5],
        last_at=_maybe(row[6]),
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
        at=from_micros(row[1]),
        outcome=OccurrenceOutcome(row[2]),
        job=row[3],
        made_at=from_micros(row[4]),
    )


def _maybe(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


_OCCURRENCES: Final = Shape(
    _occurrence,
    ("schedule", "at", "outcome", "job", "made_at"),
    ("", 0, "skipped", None, 0),
    lambda occurrence, _: occurrence,
)
