"""What jobs have recorded on their way: results of steps, and how to undo them."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from offpath.model.job import JobRecord, JobState, LeasedJob
from offpath.model.wait import Undoing

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables

_FAILED = (JobState.DEAD, JobState.CANCELLED)


class Steps:
    """The records of all jobs."""

    __slots__ = ("results", "to_undo", "undo")

    def __init__(self) -> None:
        self.results: dict[str, dict[str, str | None]] = {}
        """Job to the results of its steps by name."""
        self.undo: dict[str, dict[str, str]] = {}
        """Job to what undoes its steps, by name, in the order of first calls."""
        self.to_undo: dict[str, None] = {}
        """Dead and cancelled jobs that have something to undo."""

    def moved(self, job: JobRecord) -> None:
        """A job has ended, or was put back."""
        if job.id not in self.undo:
            return
        if job.state in _FAILED:
            self.to_undo[job.id] = None
            return
        self.to_undo.pop(job.id, None)
        if job.state is JobState.SUCCEEDED:
            del self.undo[job.id]

    def forget(self, job_id: str) -> None:
        """A job is gone, or has been undone."""
        self.results.pop(job_id, None)
        self.undo.pop(job_id, None)
        self.to_undo.pop(job_id, None)


def put(tables: Tables, job: LeasedJob, name: str, result: str | None) -> str | None:
    """Record a result once; what is recorded."""
    tables.fenced(job)
    return tables.steps.results.setdefault(job.id, {}).setdefault(name, result)


def put_undo(tables: Tables, job: LeasedJob, name: str, undo: str) -> None:
    """Record once what undoes a step."""
    tables.fenced(job)
    tables.steps.undo.setdefault(job.id, {}).setdefault(name, undo)


def undoing(tables: Tables, limit: int, after: str | None = None) -> list[Undoing]:
    """Jobs that have something to undo, by id, those after one if given."""
    waiting = (each for each in tables.steps.to_undo if after is None or each > after)
    return [
        Undoing(
            id=each,
            group_id=tables.jobs[each].group_id,
            undo=tuple(tables.steps.undo[each].values()),
        )
        for each in nsmallest(max(limit, 0), waiting)
    ]
