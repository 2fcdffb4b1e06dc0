"""Jobs that begin in the process that enqueues them."""

from __future__ import annotations

from datetime import datetime

from offpath.errors import InvalidArgument, LeaseLost
from offpath.model.job import LeasedJob, NewJob
from offpath.store.memory.enqueue import Plan
from offpath.store.memory.records import handed_out, leased
from offpath.store.memory.tables import Tables


def start(tables: Tables, now: datetime, job: NewJob, worker: str) -> LeasedJob | None:
    """Enqueue a job and hand it to a worker; None when it was not created, or waits for its key."""
    if job.gate is not None or job.limit is not None:
        raise InvalidArgument(
            f"job {job.id} has a gate or a limit, so it cannot begin at once: enqueue it"
        )
    known = tables.workers.get(worker)
    if known is None or known.expires_at <= now:
        raise LeaseLost(f"worker {worker} is not registered any more: nothing was enqueued")
    plan = Plan(tables, now)
    if not plan.add(job).created:
        return None
    plan.apply()
    record = tables.jobs[job.id]
    if tables.awaits_key(record, now):
        return None
    running = handed_out(record, worker, now)
    tables.file(running, now)
    return leased(running)
