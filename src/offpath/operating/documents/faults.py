"""Documents of faults: dead letters with one cause, as one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from offpath.model.fault import fault_text
from offpath.model.job import JobRecord


class FaultDocument(Struct, frozen=True, kw_only=True):
    """The dead jobs of one task that died for one reason, of one error."""

    task: str
    reason: str | None
    type: str | None
    text: str
    jobs: int
    first_at: datetime | None
    last_at: datetime | None
    queues: tuple[str, ...]
    sample: str
    """The id of the newest of these jobs."""


class FaultsDocument(Struct, frozen=True, kw_only=True):
    """The faults of the newest dead jobs, the most frequent first."""

    items: tuple[FaultDocument, ...]
    looked_at: int
    """The number of dead jobs that were looked at."""
    more: bool
    """True if there are older ones, which are not counted here."""


def describe(newest: Iterable[JobRecord], *, more: bool) -> FaultsDocument:
    """The faults of dead jobs, which come with the newest first."""
    found: dict[tuple[str, str | None, str | None, str], list[JobRecord]] = {}
    looked = 0
    for job in newest:
        looked += 1
        failure = job.failure
        kind, text = (None, "") if failure is None else (failure.type, fault_text(failure.message))
        found.setdefault((job.task, job.reason, kind, text), []).append(job)
    told = [_fault(key, jobs) for key, jobs in found.items()]
    return FaultsDocument(
        items=tuple(sorted(told, key=lambda one: -one.jobs)), looked_at=looked, more=more
    )


def _fault(key: tuple[str, str | None, str | None, str], jobs: list[JobRecord]) -> FaultDocument:
    task, reason, kind, text = key
    ends = [one.finished_at for one in jobs if one.finished_at is not None]
    return FaultDocument(
        task=task,
        reason=reason,
        type=kind,
        text=text,
        jobs=len(jobs),
        first_at=min(ends, default=None),
        last_at=max(ends, default=None),
        queues=tuple(sorted({one.queue for one in jobs})),
        sample=jobs[0].id,
    )
