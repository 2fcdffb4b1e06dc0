"""The choice of a lease, for stores that have all waiting jobs in hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from offpath.model.job import JobRecord, JobState
from offpath.model.lease import LeaseRequest

Choice = tuple[list[JobRecord], bool, float | None]
"""The jobs to hand out, best first; whether more could be had; the seconds to the next due one."""


def chosen(jobs: Iterable[JobRecord], request: LeaseRequest, now: datetime) -> Choice:
    """The best of these jobs by priority, run time and id, with a fair share between queues."""
    wanted = sorted((job for job in jobs if _asked(job, request)), key=_place)
    tasks = _rooms(request.tasks, request.limit)
    queues = _rooms(request.queue_rooms, request.limit)
    taken, more = list[JobRecord](), False
    for job in _in_turn([job for job in wanted if job.run_at <= now], request.served):
        if tasks[job.task] <= 0 or queues.get(job.queue, 1) <= 0:
            continue
        # Behind the look at the rooms: a job that could not be had is not one more.
        if len(taken) == request.limit:
            more = True
            break
        taken.append(job)
        tasks[job.task] -= 1
        if job.queue in queues:
            queues[job.queue] -= 1
    later = [(job.run_at - now).total_seconds() for job in wanted if job.run_at > now]
    # The turns of the queues have mixed the order, and a worker begins with the best.
    return sorted(taken, key=_place), more, min(later, default=None)


def _asked(job: JobRecord, request: LeaseRequest) -> bool:
    return (
        job.state is JobState.QUEUED
        and request.tasks.get(job.task, 0) > 0
        and (not request.queues or job.queue in request.queues)
        and request.queue_rooms.get(job.queue, 1) > 0
        and job.id not in request.declined
    )


def _place(job: JobRecord) -> tuple[int, datetime, str]:
    return -job.priority, job.run_at, job.id


def _in_turn(due: list[JobRecord], served: Mapping[str, int]) -> list[JobRecord]:
    """The queue that was served least gives first, whatever its priorities."""
    given = Counter(served)
    turns = list[tuple[int, tuple[int, datetime, str], JobRecord]]()
    for job in due:
        turns.append((given[job.queue], _place(job), job))
        given[job.queue] += 1
    return [job for *_, job in sorted(turns, key=lambda each: each[:2])]


def _rooms(counts: Mapping[str, int], limit: int) -> dict[str, float]:
    """The number of each that may be had. The limit as a whole is never a bound of their own."""
    return {name: n if n < limit else math.inf for name, n in counts.items()}
