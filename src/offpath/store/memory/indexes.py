"""Indexes that the tables keep: names by rank, counts of jobs by state, and suspects by crash."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from offpath.model.job import JobRecord, JobState
from offpath.model.suspicion import CLEARED

Rank = TypeVar("Rank")

# Without it nearly every removal would rebuild a heap of a few names.
_COMPACT_ABOVE = 64


class LazyHeap(Generic[Rank]):
    """Names in the order of their ranks, lowest first.

    Removing only forgets the name; its entry is skipped when it comes to the top, and the heap is
    rebuilt when more than half of it is forgotten, so that it never outgrows what it holds.
    """

    __slots__ = ("_entries", "_serial", "_serials")

    def __init__(self) -> None:
        self._entries: list[tuple[Rank, int, str]] = []
        self._serials: dict[str, int] = {}  # which entry of a name counts
        self._serial = 0

    def __len__(self) -> int:
        return len(self._serials)

    def __iter__(self) -> Iterator[str]:
        """Every name, in no particular order."""
        return iter(self._serials)

    def push(self, name: str, rank: Rank) -> None:
        """Add ``name``, or move it to another rank."""
        if name in self._serials:
            self.remove(name)
        self._serial += 1
        # An older entry of this name may be in the heap still: its number tells it from this one.
        self._serials[name] = self._serial
        heapq.heappush(self._entries, (rank, self._serial, name))

    def remove(self, name: str) -> bool:
        """Forget ``name``; False when it was not there."""
        if self._serials.pop(name, None) is None:
            return False
        if len(self._entries) > _COMPACT_ABOVE + 2 * len(self._serials):
            self._compact()
        return True

    def __contains__(self, name: str) -> bool:
        """True if it is here."""
        return name in self._serials

    def ranks(self) -> Iterator[Rank]:
        """Every rank, in no particular order."""
        return (rank for rank, serial, name in self._entries if self._serials.get(name) == serial)

    def first(self) -> tuple[Rank, str] | None:
        """The lowest rank and its name, None when empty."""
        entries, serials = self._entries, self._serials
        while entries:
            rank, serial, name = entries[0]
            if serials.get(name) == serial:
                return rank, name
            heapq.heappop(entries)
        return None

    def _compact(self) -> None:
        self._entries = [e for e in self._entries if self._serials.get(e[2]) == e[1]]
        heapq.heapify(self._entries)


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
