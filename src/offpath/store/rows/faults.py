"""Dead jobs by their fault, for stores that keep no index of faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from offpath.model.brief import MOST_QUEUES, FaultCount, FaultTally
from offpath.model.fault import fault_key
from offpath.model.job import DeadReason, JobRecord, JobState

_WITHOUT_ATTEMPT = frozenset(
    {DeadReason.WORKER_LOST, DeadReason.UNSATISFIABLE, DeadReason.GATE_TIMEOUT}
)
"""Deaths that no attempt brought about: what failed before is not their fault."""
NOTHING = FaultTally(items=(), looked_at=0, more=False)


def tallied(
    dead: Sequence[JobRecord],
    key: Callable[[JobRecord], str | None],
    *,
    limit: int,
    more: bool,
    task: str | None = None,
) -> FaultTally:
    """The faults of dead jobs, newest first by id: the most frequent first. ``more``: there are
    older ones. With ``task`` those of its jobs.
    """
    found: dict[tuple[str, str | None, str | None], list[JobRecord]] = {}
    for job in dead:
        if task not in {None, job.task}:
            continue
        found.setdefault((job.task, job.reason, key(job)), []).append(job)
    told = sorted(
        (_fault(*each, jobs) for each, jobs in found.items()),
        key=lambda one: (-one.jobs, one.task, one.reason or "", one.key or ""),
    )
    return FaultTally(items=tuple(told[:limit]), looked_at=len(dead), more=more)


def newest_dead(jobs: Iterable[JobRecord], since: datetime | None) -> list[JobRecord]:
    """The dead jobs, newest first by id; with ``since`` by the time of their death."""
    if since is None:
        dead = [one for one in jobs if one.state is JobState.DEAD]
        return sorted(dead, key=lambda one: one.id, reverse=True)
    ended = ((one.finished_at, one.id, one) for one in jobs if one.state is JobState.DEAD)
    late = [(at, job_id, one) for at, job_id, one in ended if at is not None and at >= since]
    return [one for *_, one in sorted(late, key=lambda each: each[:2], reverse=True)]


def key_of(job: JobRecord) -> str | None:
    """The key of the failure that a dead job ended by, from the job alone."""
    failure = job.failure
    if failure is None or job.reason in _WITHOUT_ATTEMPT:
        return None
    return fault_key(failure.type, failure.message)


def _fault(task: str, reason: str | None, key: str | None, jobs: Sequence[JobRecord]) -> FaultCount:
    ends = [job.finished_at for job in jobs if job.finished_at is not None]
    return FaultCount(
        task=task,
        reason=reason,
        key=key,
        jobs=len(jobs),
        first_at=min(ends),
        last_at=max(ends),
        queues=_queues(jobs),
        sample=jobs[0].id,
    )


def _queues(jobs: Iterable[JobRecord]) -> tuple[str, ...]:
    return tuple(sorted({job.queue for job in jobs})[:MOST_QUEUES])
