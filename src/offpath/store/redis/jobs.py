"""Transitions of jobs that exist, except their lease and settlement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.model.amendment import Amendment
from offpath.model.changes import ChangedJob
from offpath.model.job import TERMINAL, DeadReason, JobRecord, JobState, LeasedJob
from offpath.model.lease import Rescued
from offpath.model.suspicion import CLEARED, Lost, judged
from offpath.store.hints import Hint
from offpath.store.protocol import JobRedrive
from offpath.store.redis import keys
from offpath.store.redis.job_rows import StoredJob, micros
from offpath.store.redis.unit import Unit
from offpath.store.redis.workers import gone_at, leave
from offpath.store.refusals import not_held
from offpath.store.rows.instants import later, maybe_later
from offpath.store.rows.jobs import (
    amended,
    changed,
    fresh,
    given_up,
    holds,
    leased,
    lost,
    stopped,
)

_REDRIVABLE = (JobState.DEAD, JobState.CANCELLED)


async def progress(unit: Unit, job: LeasedJob, progress: str) -> None:
    """Record how far a held job is. Raises LeaseLost."""
    await unit.load([job.id])
    row = unit.job(job.id)
    if row is None or not holds(row.record, job):
        raise not_held(job.id)
    unit.file(row._replace(record=replace(row.record, progress=progress)))


async def cancel(unit: Unit, ids: Sequence[str], *, keep: float | None = None) -> list[ChangedJob]:
    """End what waits, mark what runs."""
    expires_at = maybe_later(unit.now, keep)
    changes = list[ChangedJob]()
    for row in await _each(unit, ids):
        after = stopped(row.record, unit.now, expires_at)
        if after is None:
            continue
        if after.cancel_requested:
            unit.tell(Hint.CANCEL)
        unit.file(row._replace(record=after))
        changes.append(changed(row.record, after))
    return changes


async def redrive(unit: Unit, redrives: Sequence[JobRedrive]) -> list[ChangedJob]:
    """Put ended jobs back, and make waiting ones due."""
    due = {each.id: later(unit.now, each.delay) for each in redrives}
    changes = list[ChangedJob]()
    for row in await _each(unit, due):
        after = _redriven(unit, row, due[row.record.id])
        if after is not None:
            unit.file(row._replace(record=after, alone=False))
            changes.append(changed(row.record, after))
    return changes


async def amend(unit: Unit, ids: Sequence[str], amendment: Amendment) -> list[ChangedJob]:
    """Give waiting jobs other terms."""
    changes = list[ChangedJob]()
    for row in await _each(unit, ids):
        job = row.record
        if amendment.fits(job):
            after = amended(job, amendment)
            unit.file(row._replace(record=after))
            changes.append(changed(job, after))
    return changes


def _redriven(unit: Unit, row: StoredJob, run_at: datetime) -> JobRecord | None:
    job = row.record
    if job.state is JobState.QUEUED:
        return replace(job, run_at=run_at, reason=None)
    if job.state not in _REDRIVABLE or _key_is_taken(unit, row):
        return None
    return fresh(job, run_at, maybe_later(unit.now, row.terms.deadline_in), unit.now)


def _key_is_taken(unit: Unit, row: StoredJob) -> bool:
    """True if another job holds the unique key that this one would hold again."""
    unique = row.terms.unique
    # Only a key that the job would hold as it waits can be in its way.
    if unique is None or JobState.QUEUED not in unique.states:
        return False
    holder = unit.holder_of(unique.key)
    return holder is not None and holder.record.id != row.record.id


async def delete(unit: Unit, ids: Sequence[str]) -> list[ChangedJob]:
    """Remove ended jobs."""
    rows = [row for row in await _each(unit, ids) if row.record.state in TERMINAL]
    for row in rows:
        unit.drop(row)
    return [changed(row.record, row.record) for row in rows]


async def _each(unit: Unit, ids: Iterable[str]) -> list[StoredJob]:
    """The jobs of these ids that exist, each once, in the order of their ids."""
    # In one order, so that every store answers alike.
    wanted = sorted(set(ids))
    await unit.load(wanted)
    return [row for each in wanted if (row := unit.job(each)) is not None]


# -- upkeep --------------------------------------------------------------------------------------


async def rescue(
    unit: Unit, *, limit: int, max_deliveries: int, keep: float | None
) -> list[Rescued]:
    """Take jobs from workers that are gone, and note which hold nothing more."""
    expires_at = maybe_later(unit.now, keep)
    workers = await _late(unit)
    rescued = list[Rescued]()
    for worker in workers:
        room = limit - len(rescued)
        # One more than there is room for: only a worker without jobs is noted as gone.
        (found,) = await unit.read(["ZRANGE", unit.key(keys.HELD + worker), 0, max(room, 0)])
        ids = [each.decode() for each in found]
        rows = await _each(unit, ids[:room])
        gone = await gone_at(unit, worker)
        for row in rows:
            # The index was read before the rows: the job may have ended, or moved on.
            if row.record.worker == worker and row.record.state is JobState.RUNNING:
                rescued.append(await _rescue_one(unit, row, gone, max_deliveries, expires_at))
        if len(ids) <= room:
            leave(unit, worker, gone)
    return rescued


async def _late(unit: Unit) -> list[str]:
    """Workers whose lease has expired or whose row is gone, and that hold jobs or are not noted as
    gone.
    """
    expired, holders = await unit.read(
        ["ZRANGEBYSCORE", unit.key(keys.LEASES), "-inf", micros(unit.now)],
        ["SMEMBERS", unit.key(keys.HOLDERS)],
    )
    names = sorted(each.decode() for each in holders)
    leases = await unit.read(*(["ZSCORE", unit.key(keys.LEASES), each] for each in names))
    now = micros(unit.now)
    lost = [
        name for name, end in zip(names, leases, strict=True) if end is None or float(end) <= now
    ]
    return list(dict.fromkeys([*lost, *(each.decode() for each in expired)]))


async def _rescue_one(
    unit: Unit,
    row: StoredJob,
    gone: datetime | None,
    max_deliveries: int,
    expires_at: datetime | None,
) -> Rescued:
    job = row.record
    verdict = judged(
        Lost(
            losses=job.losses,
            begun=job.started_at is not None,
            alone=row.alone,
            out_of_touch=gone is None and await _is_known(unit, job.worker),
        ),
        max_deliveries,
    )
    taken = replace(job, losses=verdict.losses)
    after = lost(taken, unit.now, expires_at, dead=verdict.dead, seen=gone is not None)
    await _clear_others(unit, row)
    crash = job.worker if verdict.suspect else row.crash
    unit.file(row._replace(record=after, crash=crash, alone=False))
    return Rescued(job=leased(taken), state=after.state)


async def _is_known(unit: Unit, worker: str | None) -> bool:
    (known,) = await unit.read(["EXISTS", unit.key(keys.WORKER + (worker or ""))])
    return bool(known)


async def _clear_others(unit: Unit, row: StoredJob) -> None:
    """Clear those of this crash that wait: they were not in the half that crashed again."""
    if not row.crash or row.record.started_at is None:
        return
    (found,) = await unit.read(["ZRANGE", unit.key(keys.SUSPECTS), 0, -1])
    for other in await _each(unit, [each.decode() for each in found]):
        same = other.crash == row.crash and other.record.id != row.record.id
        if same and other.record.state is not JobState.RUNNING:
            unit.file(other._replace(crash=CLEARED))


async def expire(unit: Unit, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
    """Give up jobs whose deadline has passed while they waited."""
    expires_at = maybe_later(unit.now, keep)
    (found,) = await unit.read(
        ["ZRANGEBYSCORE", unit.key(keys.DEADLINES), "-inf", micros(unit.now), "LIMIT", 0, limit]
    )
    changes = list[ChangedJob]()
    rows = await _each(unit, [each.decode() for each in found])
    for row in sorted(rows, key=lambda each: (each.record.deadline, each.record.id)):
        job = row.record
        # Asked again of the row: the index may have been read before it moved.
        if job.state is JobState.QUEUED and job.deadline is not None and job.deadline <= unit.now:
            after = given_up(job, DeadReason.DEADLINE, unit.now, expires_at)
            unit.file(row._replace(record=after))
            changes.append(changed(job, after))
    return changes


async def prune(unit: Unit, limit: int) -> int:
    """Remove ended jobs whose time has come."""
    (found,) = await unit.read(
        ["ZRANGEBYSCORE", unit.key(keys.EXPIRING), "-inf", micros(unit.now), "LIMIT", 0, limit]
    )
    rows = await _each(unit, [each.decode() for each in found])
    # A job may have been put back since the index was read.
    rows = [row for row in rows if _is_over(row.record, unit.now)]
    for row in rows:
        unit.drop(row)
    return len(rows)


def _is_over(job: JobRecord, now: datetime) -> bool:
    """True if an ended job has been kept long enough."""
    return job.state in TERMINAL and job.expires_at is not None and job.expires_at <= now


def group_done(unit: Unit, job_id: str) -> bool:
    """True if the end of this job, once it is written, was the end of its group."""
    told = unit.ended.get(job_id)
    if told is None:
        return False
    row = unit.job(job_id)
    lone = told & 3 == 0 and row is not None and row.record.redrives == 0
    return told & 3 == 1 or lone
