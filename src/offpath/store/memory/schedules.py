"""Schedules, and what became of their occurrences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.model.checks import MOST_LISTED
from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    Occurrence,
    Schedule,
    ScheduleRecord,
)
from offpath.store import schedule_rules as rules
from offpath.store.memory import effects as doors
from offpath.store.memory.part import MemoryPart
from offpath.store.memory.tables import Tables


class MemorySchedules(MemoryPart):
    """The part of the memory store that keeps schedules. No method waits."""

    async def put_schedule(self, schedule: Schedule, *, next_at: datetime | None) -> ScheduleRecord:
        """Add or change one."""
        return put(self._tables, self._clock.now(), schedule, next_at)

    async def schedules(self, names: Sequence[str] = ()) -> list[ScheduleRecord]:
        """The schedules of these names, or all, by name."""
        known = self._tables.schedules
        chosen = sorted(known.keys() & set(names)) if names else sorted(known)
        return [_seen(self._tables, known[name]) for name in chosen[:MOST_LISTED]]

    async def due_schedules(self, *, limit: int) -> tuple[list[ScheduleRecord], float | None]:
        """The schedules that are due, and seconds until the next one."""
        return due(self._tables, self._clock.now(), limit)

    async def pause_schedule(
        self, name: str, *, paused: bool, next_at: datetime | None = None
    ) -> bool:
        """Pause or resume one."""
        return pause(self._tables, self._clock.now(), name, paused=paused, next_at=next_at)

    async def delete_schedule(self, name: str) -> bool:
        """Remove one with its history."""
        if self._tables.schedules.pop(name, None) is None:
            return False
        self._tables.occurrences.pop(name, None)
        return True

    async def fire(self, firing: Firing) -> FiringStatus:
        """Settle occurrences."""
        status = fire(self._tables, self._clock.now(), firing)
        if status is FiringStatus.FIRED and firing.jobs:
            self._tell(waiting=True)
        return status

    async def trigger_schedule(self, name: str, job: NewJob, occurrence: Occurrence) -> bool:
        """Make a job of it now."""
        known = trigger(self._tables, self._clock.now(), name, job, occurrence)
        if known:
            self._tell(waiting=True)
        return known

    async def occurrences(
        self, name: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[Occurrence]:
        """Its history, the latest first."""
        rows = self._tables.occurrences.get(name, {})
        times = sorted((at for at in rows if before is None or at < before), reverse=True)
        return [rows[at] for at in times[: max(limit, 0)]]

    async def prune_occurrences(self, *, before: datetime, limit: int) -> int:
        """Remove old history."""
        return prune(self._tables, before, limit)


def put(
    tables: Tables, now: datetime, schedule: Schedule, next_at: datetime | None
) -> ScheduleRecord:
    """Add or change a schedule."""
    known = tables.schedules.get(schedule.name)
    next_at = _in_utc(next_at)
    if known is None:
        made = ScheduleRecord(
            schedule=schedule,
            paused=False,
            next_at=next_at,
            created_at=now,
            updated_at=now,
            version=1,
        )
    elif rules.keeps(known.schedule, schedule):
        made = known
    else:
        made = _changed(tables, now, known, schedule, next_at)
    tables.schedules[schedule.name] = made
    return _seen(tables, made)


def _changed(
    tables: Tables,
    now: datetime,
    known: ScheduleRecord,
    schedule: Schedule,
    next_at: datetime | None,
) -> ScheduleRecord:
    last_at = known.last_at
    if not rules.retimed(known.schedule, schedule):
        # By the same times what is due stays due: a release must not lose a night.
        due = known.next_at is not None and known.next_at <= now
        next_at = known.next_at if due else next_at
    elif (skipped := rules.overtaken(known, now)) is not None:
        last_at = skipped.at
        rows = tables.occurrences.setdefault(schedule.name, {})
        # An occurrence that was settled before keeps its row.
        rows.setdefault(skipped.at, replace(skipped, made_at=now))
    return replace(
        known,
        schedule=schedule,
        next_at=next_at,
        last_at=last_at,
        updated_at=now,
        version=known.version + 1,
    )


def due(tables: Tables, now: datetime, limit: int) -> tuple[list[ScheduleRecord], float | None]:
    """The schedules that are due, the longest due first, and seconds until the next one."""
    live = [
        (each.next_at, name)
        for name, each in tables.schedules.items()
        if each.next_at is not None and not each.paused
    ]
    names = [name for at, name in sorted(live) if at <= now][: max(limit, 0)]
    wait = min(((at - now).total_seconds() for at, _ in live if at > now), default=None)
    return [_seen(tables, tables.schedules[name]) for name in names], wait


def pause(
    tables: Tables, now: datetime, name: str, *, paused: bool, next_at: datetime | None
) -> bool:
    """Pause or resume one; False: unknown."""
    known = tables.schedules.get(name)
    if known is None:
        return False
    moved = known.next_at if paused or next_at is None else rules.in_utc(next_at)
    # A repeat must not look like a change.
    if known.paused != paused or known.next_at != moved:
        tables.schedules[name] = replace(known, paused=paused, next_at=moved, updated_at=now)
    return True


def fire(tables: Tables, now: datetime, firing: Firing) -> FiringStatus:
    """Write occurrences, their jobs and the next time; or nothing."""
    known = tables.schedules.get(firing.schedule)
    if known is None or rules.is_stale(known, firing):
        return FiringStatus.STALE
    record = _seen(tables, known)
    status = rules.status_of(record, firing)
    if status is FiringStatus.HELD:
        return status
    rows = tables.occurrences.setdefault(firing.schedule, {})
    fresh = rules.fresh(firing, rows, status)
    # The jobs first: what refuses them has then written nothing.
    answers = doors.commit(tables, now, Effects(jobs=fresh.jobs))
    written = list(rules.answered(fresh.occurrences, answers))
    rows.update((one.at, replace(one, made_at=now)) for one in written)
    tables.schedules[firing.schedule] = replace(
        known,
        next_at=_in_utc(firing.next_at),
        last_at=rules.last_at(known, firing),
        last_job=rules.last_job(known, written),
    )
    return status


def trigger(tables: Tables, now: datetime, name: str, job: NewJob, occurrence: Occurrence) -> bool:
    """Make a job out of turn; False: unknown."""
    if name not in tables.schedules:
        return False
    answers = doors.commit(tables, now, Effects(jobs=(job,)))
    (written,) = rules.answered([replace(occurrence, job=job.id)], answers)
    rows = tables.occurrences.setdefault(name, {})
    at = rules.in_utc(occurrence.at)
    rows.setdefault(at, replace(written, schedule=name, at=at, made_at=now))
    return True


def prune(tables: Tables, before: datetime, limit: int) -> int:
    """Remove up to ``limit`` occurrences made before a time, the oldest first."""
    old = sorted(
        (one.made_at, name, at)
        for name, rows in tables.occurrences.items()
        for at, one in rows.items()
        if one.made_at is not None and one.made_at < before
    )[: max(limit, 0)]
    for _, name, at in old:
        del tables.occurrences[name][at]
    return len(old)


def _seen(tables: Tables, record: ScheduleRecord) -> ScheduleRecord:
    job = tables.jobs.get(record.last_job or "")
    return replace(record, last_open=job is not None and not job.state.terminal)


def _in_utc(at: datetime | None) -> datetime | None:
    return None if at is None else rules.in_utc(at)
