"""Jobs that begin in the process that enqueues them."""

from __future__ import annotations

from datetime import datetime

from offpath.model.job import LeasedJob, NewJob
from offpath.store.memory.enqueue import NewJobs
from offpath.store.memory.records import handed_out, leased
from offpath.store.memory.tables import Tables
from offpath.store.refusals import not_registered, refuse_waiting


def start(tables: Tables, now: datetime, job: NewJob, worker: str) -> LeasedJob | None:
    """Enqueue a job and hand it to a worker; None when it was not created, or waits for its key."""
    refuse_waiting(job)
    known = tables.workers.get(worker)
    if known is None or known.expires_at <= now:
        raise not_registered(worker)
    plan = NewJobs(tables, now)
    if not plan.add(job).created:
        return None
    plan.apply()
    record = tables.jobs[job.id]
    if tables.awaits_key(record, now):
        return None
    running = handed_out(record, worker, now)
    tables.file(running, now)
    return leased(running)
