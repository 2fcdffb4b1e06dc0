"""Rows of suspects: jobs that were held when a worker died."""

from __future__ import annotations

from collections.abc import Mapping

from offpath.model.job import JobRecord, JobState
from offpath.model.suspicion import CLEARED


class Suspects:
    """The jobs that are suspects, with their crashes; and the one of them that was handed out
    alone.
    """

    __slots__ = ("alone", "crash_of")

    def __init__(self) -> None:
        self.crash_of: dict[str, str] = {}
        self.alone: set[str] = set()

    def accuse(self, job_id: str, crash: str) -> None:
        """A job belongs to the suspects of a crash from now on."""
        self.crash_of[job_id] = crash
        self.alone.discard(job_id)

    def forget(self, job_id: str) -> None:
        """A job has ended, or is fresh again."""
        self.crash_of.pop(job_id, None)
        self.alone.discard(job_id)

    def clear(self, crash: str, jobs: Mapping[str, JobRecord]) -> None:
        """Clear the jobs that wait: they were not in the half that crashed again."""
        for each, of in self.crash_of.items():
            if of == crash and jobs[each].state is not JobState.RUNNING:
                self.crash_of[each] = CLEARED
