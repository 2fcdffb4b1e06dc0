"""The order of a lease, as its definition says it."""

from __future__ import annotations

from datetime import datetime

from offpath.model.job import JobRecord


def best_first(job: JobRecord) -> tuple[int, datetime, str]:
    """The rank of a job in its queue."""
    return -job.priority, job.run_at, job.id


def fairly(jobs: list[JobRecord], served: dict[str, int]) -> list[JobRecord]:
    """By the place in the queue, then best first."""
    places = dict(served)
    placed: list[tuple[int, JobRecord]] = []
    for job in jobs:
        places[job.queue] = places.get(job.queue, 0) + 1
        placed.append((places[job.queue], job))
    return [job for _, job in sorted(placed, key=lambda each: (each[0], best_first(each[1])))]
