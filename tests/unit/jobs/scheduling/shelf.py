"""A shelf of schedules over any store that keeps jobs: the contract in its plainest form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    Occurrence,
    OccurrenceOutcome,
    Overlap,
    Schedule,
    ScheduleRecord,
)
from offpath.store.protocol import Store


class Shelf:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.records: dict[str, ScheduleRecord] = {}
        self.rows: dict[tuple[str, datetime], Occurrence] = {}

    async def ping(self) -> datetime:
        return await self._store.ping()

    async def put_schedule(self, schedule: Schedule, *, next_at: datetime | None) -> ScheduleRecord:
        now = await self.ping()
        had = self.records.get(schedule.name)
        if had is None:
            made = ScheduleRecord(
                schedule=schedule,
                paused=False,
                next_at=next_at,
                created_at=now,
                updated_at=now,
                version=1,
            )
        elif had.schedule == schedule or (
            schedule.origin == "code" and had.schedule.origin == "api"
        ):
            made = had
        else:
            made = replace(had, schedule=schedule, next_at=next_at, version=had.version + 1)
        self.records[schedule.name] = made
        return made

    async def schedules(self, names: Sequence[str] = ()) -> list[ScheduleRecord]:
        chosen = sorted(self.records) if not names else [n for n in names if n in self.records]
        return [await self._seen(name) for name in chosen]

    async def _seen(self, name: str) -> ScheduleRecord:
        record = self.records[name]
        if record.last_job is None:
            return record
        states = await self._store.states([record.last_job])
        is_open = any(not state.terminal for state in states.values())
        return replace(record, last_open=is_open)

    async def due_schedules(self, *, limit: int) -> tuple[list[ScheduleRecord], float | None]:
        now = await self.ping()
        live = [r for r in self.records.values() if not r.paused and r.next_at is not None]
        due = sorted(
            (r for r in live if r.next_at is not None and r.next_at <= now),
            key=lambda r: r.next_at or now,
        )
        later = [(r.next_at - now).total_seconds() for r in live if r.next_at and r.next_at > now]
        return [await self._seen(r.schedule.name) for r in due[:limit]], min(later, default=None)

    async def pause_schedule(
        self, name: str, *, paused: bool, next_at: datetime | None = None
    ) -> bool:
        if name not in self.records:
            return False
        record = self.records[name]
        self.records[name] = replace(record, paused=paused, next_at=next_at or record.next_at)
        return True

    async def delete_schedule(self, name: str) -> bool:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != name}
        return self.records.pop(name, None) is not None

    async def fire(self, firing: Firing) -> FiringStatus:
        record = self.records.get(firing.schedule)
        if record is None or (record.next_at, record.version, record.paused) != (
            firing.expected,
            firing.version,
            False,
        ):
            return FiringStatus.STALE
        is_open = (await self._seen(firing.schedule)).last_open
        skipped = is_open and firing.overlap is Overlap.SKIP
        if is_open and firing.overlap is Overlap.QUEUE:
            return FiringStatus.HELD
        jobs = {job.id: job for job in firing.jobs}
        last = record.last_job
        for one in firing.occurrences:
            if (one.schedule, one.at) in self.rows:
                continue
            if one.job is not None and skipped:
                one = replace(one, outcome=OccurrenceOutcome.SKIPPED, job=None)  # noqa: PLW2901
            if one.job is not None:
                await self._store.commit(Effects(jobs=(jobs[one.job],)))
                last = one.job
            self.rows[one.schedule, one.at] = replace(one, made_at=await self.ping())
        self.records[firing.schedule] = replace(
            record, next_at=firing.next_at, last_at=firing.occurrences[-1].at, last_job=last
        )
        return FiringStatus.SKIPPED if skipped else FiringStatus.FIRED

    async def trigger_schedule(self, name: str, job: NewJob, occurrence: Occurrence) -> bool:
        if name not in self.records:
            return False
        await self._store.commit(Effects(jobs=(job,)))
        self.rows[name, occurrence.at] = replace(occurrence, made_at=await self.ping())
        return True

    async def occurrences(
        self, name: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[Occurrence]:
        rows = [row for (of, at), row in self.rows.items() if of == name]
        rows = [row for row in rows if before is None or row.at < before]
        return sorted(rows, key=lambda row: row.at, reverse=True)[:limit]

    async def prune_occurrences(self, *, before: datetime, limit: int) -> int:
        old = [key for key, row in self.rows.items() if row.made_at and row.made_at < before]
        for key in old[:limit]:
            del self.rows[key]
        return len(old[:limit])
