"""Rows of recorded steps and undo jobs."""

from __future__ import annotations

from offpath.model.job import JobRecord, JobState

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
