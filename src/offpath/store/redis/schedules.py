"""Schedules, and what became of their occurrences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.job import TERMINAL, NewJob
from offpath.model.schedule import Firing, FiringStatus, Occurrence, Schedule, ScheduleRecord
from offpath.store import schedule_rules as rules
from offpath.store.redis import enqueue, keys
from offpath.store.redis.job_rows import json_text, micros
from offpath.store.redis.unit import Unit

# A server does nothing else while it answers, so no list is as long as what is kept.
_LISTED: Final = 10_000
_record = msgspec.json.Decoder(ScheduleRecord).decode
_occurrence = msgspec.json.Decoder(Occurrence).decode


async def _known(unit: Unit, name: str) -> ScheduleRecord | None:
    """A schedule that a write depends on."""
    found = await unit.hash_field(keys.SCHEDULES, name)
    return None if found is None else _record(found)


def _keep(unit: Unit, record: ScheduleRecord) -> None:
    unit.run("HSET", keys.SCHEDULES, record.schedule.name, json_text(record))


def _write(unit: Unit, name: str, one: Occurrence) -> None:
    at = micros(one.at)
    written = replace(one, schedule=name, made_at=unit.now)
    unit.run("HSET", keys.OCCURRENCES + name, str(at), json_text(written))
    unit.run("ZADD", keys.OCCURRENCE_TIMES + name, at, str(at))
    unit.run("ZADD", keys.OCCURRENCE_AGES, micros(unit.now), f"{at}:{name}")


async def _recorded(unit: Unit, name: str, times: Iterable[datetime]) -> set[datetime]:
    """The times among these that have a row."""
    wanted = list(times)
    found = [await unit.hash_field(keys.OCCURRENCES + name, str(micros(at))) for at in wanted]
    return {at for at, row in zip(wanted, found, strict=True) if row is not None}


async def put(unit: Unit, schedule: Schedule, *, next_at: datetime | None) -> ScheduleRecord:
    """Add or change a schedule."""
    known = await _known(unit, schedule.name)
    next_at = None if next_at is None else rules.in_utc(next_at)
    if known is None:
        made = ScheduleRecord(
            schedule=schedule,
            paused=False,
            next_at=next_at,
            created_at=unit.now,
            updated_at=unit.now,
            version=1,
        )
        _keep(unit, made)
    elif rules.keeps(known.schedule, schedule):
        made = known
    else:
        made = await _changed(unit, known, schedule, next_at)
        _keep(unit, made)
    return (await _seen(unit, [made]))[0]


async def _changed(
    unit: Unit, known: ScheduleRecord, schedule: Schedule, next_at: datetime | None
) -> ScheduleRecord:
    last_at = known.last_at
    if not rules.retimed(known.schedule, schedule):
        due = known.next_at is not None and known.next_at <= unit.now
        next_at = known.next_at if due else next_at
    elif (skipped := rules.overtaken(known, unit.now)) is not None:
        last_at = skipped.at
        if not await _recorded(unit, schedule.name, [skipped.at]):
            _write(unit, schedule.name, skipped)
    return replace(
        known,
        schedule=schedule,
        next_at=next_at,
        last_at=last_at,
        updated_at=unit.now,
        version=known.version + 1,
    )


async def listed(unit: Unit, names: Sequence[str] = ()) -> list[ScheduleRecord]:
    """The schedules of these names, or all, by name."""
    if names:
        chosen = sorted(set(names))
        (found,) = await unit.read(["HMGET", unit.key(keys.SCHEDULES), *chosen])
    else:
        (found,) = await unit.read(["HVALS", unit.key(keys.SCHEDULES)])
    records = [_record(each) for each in found if each is not None]
    records.sort(key=lambda each: each.schedule.name)
    return await _seen(unit, records[:_LISTED])


async def _seen(unit: Unit, records: Sequence[ScheduleRecord]) -> list[ScheduleRecord]:
    """The records, with whether their last jobs are open."""
    jobs = await unit.peek(each.last_job for each in records if each.last_job is not None)
    is_open = {one for one, row in jobs.items() if row.record.state not in TERMINAL}
    return [replace(each, last_open=each.last_job in is_open) for each in records]


async def due(unit: Unit, *, limit: int) -> tuple[list[ScheduleRecord], float | None]:
    """The schedules that are due, the longest due first, and seconds until the next one."""
    live = [
        (each.next_at, each.schedule.name, each)
        for each in await listed(unit)
        if each.next_at is not None and not each.paused
    ]
    live.sort(key=lambda each: each[:2])
    wait = min(((at - unit.now).total_seconds() for at, *_ in live if at > unit.now), default=None)
    return [each for at, _, each in live if at <= unit.now][: max(limit, 0)], wait


async def pause(unit: Unit, name: str, *, paused: bool, next_at: datetime | None = None) -> bool:
    """Pause or resume one; False: unknown."""
    known = await _known(unit, name)
    if known is None:
        return False
    moved = known.next_at if paused or next_at is None else rules.in_utc(next_at)
    if known.paused != paused or known.next_at != moved:
        _keep(unit, replace(known, paused=paused, next_at=moved, updated_at=unit.now))
    return True


async def delete(unit: Unit, name: str) -> bool:
    """Remove one with its history; False: unknown."""
    if await _known(unit, name) is None:
        return False
    (times,) = await unit.read(["ZRANGE", unit.key(keys.OCCURRENCE_TIMES + name), 0, -1])
    for at in times:
        unit.run("ZREM", keys.OCCURRENCE_AGES, f"{at.decode()}:{name}")
    unit.run("HDEL", keys.SCHEDULES, name)
    unit.run("DEL", keys.OCCURRENCES + name)
    unit.run("DEL", keys.OCCURRENCE_TIMES + name)
    return True


async def fire(unit: Unit, firing: Firing) -> FiringStatus:
    """Write occurrences, their jobs and the next time; or nothing."""
    known = await _known(unit, firing.schedule)
    if known is None or rules.is_stale(known, firing):
        return FiringStatus.STALE
    if known.last_job is not None:
        await unit.load([known.last_job])
    last = unit.job(known.last_job)
    last_open = last is not None and last.record.state not in TERMINAL
    status = rules.status_of(replace(known, last_open=last_open), firing)
    if status is FiringStatus.HELD:
        return status
    times = [rules.in_utc(one.at) for one in firing.occurrences]
    fresh = rules.fresh(firing, await _recorded(unit, firing.schedule, times), status)
    answers = await enqueue.commit(unit, Effects(jobs=fresh.jobs))
    written = list(rules.answered(fresh.occurrences, answers))
    for one in written:
        _write(unit, firing.schedule, one)
    _keep(
        unit,
        replace(
            known,
            next_at=None if firing.next_at is None else rules.in_utc(firing.next_at),
            last_at=rules.last_at(known, firing),
            last_job=rules.last_job(known, written),
        ),
    )
    return status


async def trigger(unit: Unit, name: str, job: NewJob, occurrence: Occurrence) -> bool:
    """Make a job out of turn; False: unknown."""
    if await _known(unit, name) is None:
        return False
    answers = await enqueue.commit(unit, Effects(jobs=(job,)))
    (written,) = rules.answered([replace(occurrence, job=job.id)], answers)
    at = rules.in_utc(occurrence.at)
    if not await _recorded(unit, name, [at]):
        _write(unit, name, replace(written, at=at))
    return True


async def occurrences(
    unit: Unit, name: str, *, limit: int = 100, before: datetime | None = None
) -> list[Occurrence]:
    """The history of a schedule, the latest first."""
    if limit <= 0:
        return []
    last = "+inf" if before is None else f"({micros(before)}"
    index = unit.key(keys.OCCURRENCE_TIMES + name)
    (times,) = await unit.read(["ZREVRANGEBYSCORE", index, last, "-inf", "LIMIT", 0, limit])
    if not times:
        return []
    (found,) = await unit.read(["HMGET", unit.key(keys.OCCURRENCES + name), *times])
    return [_occurrence(each) for each in found if each is not None]


async def prune(unit: Unit, *, before: datetime, limit: int) -> int:
    """Remove up to ``limit`` occurrences made before a time, the oldest first."""
    if limit <= 0:
        return 0
    last = f"({micros(before)}"
    ages = unit.key(keys.OCCURRENCE_AGES)
    (found,) = await unit.read(["ZRANGEBYSCORE", ages, "-inf", last, "LIMIT", 0, limit])
    for member in (each.decode() for each in found):
        at, _, name = member.partition(":")
        unit.run("HDEL", keys.OCCURRENCES + name, at)
        unit.run("ZREM", keys.OCCURRENCE_TIMES + name, at)
        unit.run("ZREM", keys.OCCURRENCE_AGES, member)
    return len(found)
