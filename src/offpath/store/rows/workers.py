"""Workers' records from one state to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.model.job import JobRecord, LeasedJob
from offpath.model.lease import Renewed, WorkerInfo, WorkerRecord
from offpath.model.suspicion import Lost, judged
from offpath.store.rows.instants import later
from offpath.store.rows.jobs import holds, lost


def registered(
    known: WorkerRecord | None,
    worker: WorkerInfo,
    now: datetime,
    lease_seconds: float,
    report: str | None = None,
) -> WorkerRecord:
    """A worker that has a lease from now on. One that was gone begins anew."""
    if known is not None and known.gone_at is not None:
        known = None
    kept = None if known is None else known.report
    return WorkerRecord(
        info=worker,
        started_at=now if known is None else known.started_at,
        seen_at=now,
        expires_at=later(now, lease_seconds),
        late=False,
        running=0,
        report=kept if report is None else report,
    )


def left(known: WorkerRecord, now: datetime) -> WorkerRecord:
    """A worker that has stopped; what it holds is up for rescue."""
    if known.gone_at is not None:
        return known
    # A lease that is over already has ended then: a stop does not make it longer.
    return replace(known, expires_at=min(known.expires_at, now), gone_at=now)


def seen(known: WorkerRecord, now: datetime, running: int) -> WorkerRecord:
    """A worker as a list shows it."""
    return replace(known, late=known.expires_at <= now, running=running)


def taken_back(
    job: JobRecord,
    holder: WorkerRecord | None,
    now: datetime,
    expires_at: datetime | None,
    max_deliveries: int,
) -> tuple[JobRecord, JobRecord]:
    """A job of a worker that is gone: with its loss counted, and as it is afterwards.

    For stores that hand out no job apart: each counts as if it had run alone.
    """
    seen = holder is not None and holder.gone_at is not None
    silent = holder is not None and not seen
    loss = Lost(job.losses, begun=True, alone=True, out_of_touch=silent)
    verdict = judged(loss, max_deliveries)
    taken = replace(job, losses=verdict.losses)
    return taken, lost(taken, now, expires_at, dead=verdict.dead, seen=seen)


def renewed(
    worker: WorkerRecord | None,
    now: datetime,
    held: Sequence[LeasedJob],
    jobs: Mapping[str, JobRecord],
) -> Renewed:
    """The answer to a renewal: whether the worker lives, and which jobs it lost or has to stop."""
    kept = {job.id: known for job in held if (known := jobs.get(job.id)) and holds(known, job)}
    return Renewed(
        alive=worker is not None and now < worker.expires_at,
        cancelled=tuple(one for one, job in kept.items() if job.cancel_requested),
        lost=tuple(job.id for job in held if job.id not in kept),
    )
