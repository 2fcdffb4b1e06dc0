"""The numbers of jobs, so that counting them looks at none."""

from __future__ import annotations

from collections.abc import Iterator

from offpath.model.job import JobRecord, JobState


class JobTally:
    """Counts of jobs by queue, task and state."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], dict[JobState, int]] = {}

    def add(self, job: JobRecord) -> None:
        """One more."""
        counts = self._counts.get((job.queue, job.task))
        if counts is None:
            counts = self._counts[job.queue, job.task] = {}
        counts[job.state] = counts.get(job.state, 0) + 1

    def remove(self, job: JobRecord) -> None:
        """One less."""
        counts = self._counts[job.queue, job.task]
        _less(counts, job.state)
        if not counts:
            del self._counts[job.queue, job.task]

    def move(self, before: JobRecord, after: JobRecord) -> None:
        """One has become another."""
        if before.task != after.task or before.queue != after.queue:
            self.remove(before)
            self.add(after)
        elif before.state is not after.state:
            counts = self._counts[after.queue, after.task]
            _less(counts, before.state)
            counts[after.state] = counts.get(after.state, 0) + 1

    def items(self) -> Iterator[tuple[tuple[JobState, str, str], int]]:
        """Each count that is not zero, with its state, queue and task."""
        for (queue, task), counts in self._counts.items():
            for state, number in counts.items():
                yield (state, queue, task), number


def _less(counts: dict[JobState, int], state: JobState) -> None:
    left = counts[state] - 1
    if left > 0:
        counts[state] = left
    elif left == 0:
        del counts[state]
    else:
        raise AssertionError(f"the count of {state} jobs fell below zero")
