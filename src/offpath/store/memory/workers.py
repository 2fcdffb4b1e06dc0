"""Workers: who is alive, and what they should know of the jobs they hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from offpath.model.job import LeasedJob
from offpath.model.lease import Renewed, WorkerInfo, WorkerRecord
from offpath.store.memory.instants import later
from offpath.store.memory.records import leased
from offpath.store.memory.tables import Tables

_LISTED = 10_000
_MOST_HELD = 1_000
_REMEMBERED = timedelta(hours=1)


def register(tables: Tables, now: datetime, worker: WorkerInfo, lease_seconds: float) -> None:
    """Add a worker, or renew its lease."""
    known = tables.workers.get(worker.id)
    if known is not None and known.gone_at is not None:
        known = None  # it begins anew
    tables.workers[worker.id] = WorkerRecord(
        info=worker,
        started_at=now if known is None else known.started_at,
        seen_at=now,
        expires_at=later(now, lease_seconds),
        late=False,
        running=0,
        report=None if known is None else known.report,
    )


def extend(
    tables: Tables,
    now: datetime,
    worker: WorkerInfo,
    *,
    lease_seconds: float,
    held: Sequence[LeasedJob],
    report: str | None = None,
) -> Renewed:
    """Renew a worker's lease, and tell it about its jobs."""
    told = signals(tables, now, worker.id, held)
    register(tables, now, worker, lease_seconds)
    if report is not None:
        tables.workers[worker.id] = replace(tables.workers[worker.id], report=report)
    return told


def vouch(
    tables: Tables, now: datetime, worker: str, *, lease_seconds: float, report: str | None
) -> bool:
    """Renew a known worker's lease. Called in any thread: one look, one replacement."""
    known = tables.workers.get(worker)
    if known is None or known.gone_at is not None:
        return False
    tables.workers[worker] = replace(
        known,
        seen_at=now,
        expires_at=later(now, lease_seconds),
        report=known.report if report is None else report,
    )
    return True


def signals(tables: Tables, now: datetime, worker: str, held: Sequence[LeasedJob]) -> Renewed:
    """Tell a worker about its jobs."""
    known = tables.workers.get(worker)
    records = [(job.id, tables.held_by(job)) for job in held]
    return Renewed(
        alive=known is not None and now < known.expires_at,
        cancelled=tuple(each for each, job in records if job and job.cancel_requested),
        lost=tuple(each for each, job in records if job is None),
    )


def held(tables: Tables, worker: str) -> list[LeasedJob]:
    """The jobs that a worker holds, oldest first."""
    ids = islice(tables.held.get(worker, ()), _MOST_HELD)
    return [leased(tables.jobs[each]) for each in ids]


def deregister(tables: Tables, now: datetime, worker: str) -> None:
    """A worker is gone; what it holds is up for rescue."""
    known = tables.workers.get(worker)
    if known is not None and known.gone_at is None:
        expires_at = min(known.expires_at, now)
        tables.workers[worker] = replace(known, expires_at=expires_at, gone_at=now)


def prune(tables: Tables, now: datetime, limit: int) -> None:
    """Forget workers that are gone for an hour."""
    gone = (
        each.info.id
        for each in tables.workers.values()
        if each.gone_at is not None and each.gone_at + _REMEMBERED <= now
    )
    for worker in list(islice(gone, limit)):
        del tables.workers[worker]


def workers(tables: Tables, now: datetime) -> list[WorkerRecord]:
    """Every worker, oldest first."""
    records = sorted(tables.workers.values(), key=lambda each: (each.started_at, each.info.id))
    return [
        replace(
            each,
            late=each.expires_at <= now,
            running=len(tables.held.get(each.info.id, ())),
        )
        for each in records[:_LISTED]
    ]
