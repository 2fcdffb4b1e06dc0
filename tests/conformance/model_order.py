"""The order of a lease, as its definition says it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from offpath.model.job import JobRecord, JobState
from offpath.model.lease import LeaseRequest
from offpath.store.memory.tables import Tables


def best_first(job: JobRecord) -> tuple[int, datetime, str]:
    """The rank of a job in its queue."""
    return -job.priority, job.run_at, job.id


def handed_out(tables: Tables, request: LeaseRequest, now: datetime) -> list[str]:
    """The jobs of a lease, by looking at every one: suspects and those that wait for a unique key
    are passed over, and of those that take one key as they begin the first is had.
    """

    def claim(job: JobRecord) -> str | None:
        return job.unique_key if tables.terms(job.id).in_scope(JobState.RUNNING, now) else None

    due = sorted(
        (
            job
            for job in tables.jobs.values()
            if job.state is JobState.QUEUED
            and job.id not in tables.suspects.crash_of
            and not tables.awaits_key(job, now)
            and job.run_at <= now
            and (not request.queues or job.queue in request.queues)
        ),
        key=best_first,
    )
    room, served = Counter(request.tasks), Counter(request.served)
    chosen: list[JobRecord] = []
    while len(chosen) < request.limit:
        taken = {claim(job) for job in chosen} - {None}
        left = [
            job
            for job in due
            if job not in chosen and room[job.task] > 0 and claim(job) not in taken
        ]
        if not left:
            break
        best = min(left, key=lambda job: (served[job.queue], best_first(job)))
        chosen.append(best)
        room[best.task] -= 1
        served[best.queue] += 1
    return [job.id for job in sorted(chosen, key=best_first)]
