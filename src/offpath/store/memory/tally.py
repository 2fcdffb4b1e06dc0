"""How many jobs there are, so that counting them looks at none."""

from __future__ import annotations

from collections.abc import Iterator

from offpath.model.job import JobRecord, JobState


class Tally:
    """Counts of jobs by queue, task and state."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], dict[JobState, int]] = {}

    def count(self, before: JobRecord | None, after: JobRecord | None) -> None:
        """A job has become another: None is one that was not, or is not any more, there."""
        if after is not None:
            counts = self._counts.get((after.queue, after.task))
            if counts is None:
                counts = self._counts[after.queue, after.task] = {}
            counts[after.state] = counts.get(after.state, 0) + 1
        if before is not None:
            counts = self._counts[before.queue, before.task]
            left = counts[before.state] = counts[before.state] - 1
            if left <= 0:
                self._forget(before, left)

    def _forget(self, job: JobRecord, left: int) -> None:
        if left < 0:
            raise AssertionError(f"the count of {job.state} jobs fell below zero")
        counts = self._counts[job.queue, job.task]
        del counts[job.state]
        if not counts:
            del self._counts[job.queue, job.task]

    def items(self) -> Iterator[tuple[tuple[JobState, str, str], int]]:
        """Each count that is not zero, with its state, queue and task."""
        for (queue, task), counts in self._counts.items():
            for state, number in counts.items():
                yield (state, queue, task), number
