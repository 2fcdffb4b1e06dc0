"""Lanes: the waiting jobs of one queue and task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from offpath.model.job import JobRecord
from offpath.store.memory.heap import LazyHeap

Place = tuple[int, datetime, str]
"""Where a ready job stands: higher priority, then earlier run time, then lower id comes first."""


def place_of(job: JobRecord) -> Place:
    """The rank of a ready job."""
    return -job.priority, job.run_at, job.id


class Lane:
    """Ready jobs by place, scheduled ones by run time: no lease walks over the latter."""

    __slots__ = ("queue", "ready", "scheduled", "task")

    def __init__(self, queue: str, task: str) -> None:
        self.queue = queue
        self.task = task
        self.ready: LazyHeap[Place] = LazyHeap()
        self.scheduled: LazyHeap[datetime] = LazyHeap()

    def __bool__(self) -> bool:
        return len(self.ready) > 0 or len(self.scheduled) > 0

    def add(self, job: JobRecord, now: datetime) -> None:
        """Let a job wait here."""
        if job.run_at <= now:
            self.ready.push(job.id, place_of(job))
        else:
            self.scheduled.push(job.id, job.run_at)

    def remove(self, job_id: str) -> None:
        """The job waits here no more."""
        if not self.ready.remove(job_id):
            self.scheduled.remove(job_id)

    def promote(self, jobs: Mapping[str, JobRecord], now: datetime, limit: int) -> int:
        """Make up to ``limit`` due jobs ready; returns how many it were."""
        moved = 0
        while moved < limit and (first := self.scheduled.first()) and first[0] <= now:
            self.scheduled.remove(first[1])
            self.ready.push(first[1], place_of(jobs[first[1]]))
            moved += 1
        return moved

    def due_at(self) -> datetime | None:
        """When the first scheduled job is due."""
        first = self.scheduled.first()
        return first[0] if first else None


class Lanes:
    """All lanes that hold something, by task and queue."""

    __slots__ = ("_by_task",)

    def __init__(self) -> None:
        self._by_task: dict[str, dict[str, Lane]] = {}

    def __iter__(self) -> Iterator[Lane]:
        for queues in self._by_task.values():
            yield from queues.values()

    def add(self, job: JobRecord, now: datetime) -> None:
        """Let a job wait in its lane."""
        queues = self._by_task.get(job.task)
        if queues is None:
            queues = self._by_task[job.task] = {}
        lane = queues.get(job.queue)
        if lane is None:
            lane = queues[job.queue] = Lane(job.queue, job.task)
        lane.add(job, now)

    def remove(self, job: JobRecord) -> None:
        """Take a waiting job out; a lane that is empty then goes too, whatever its name was."""
        queues = self._by_task[job.task]
        lane = queues[job.queue]
        lane.remove(job.id)
        if not lane:
            del queues[job.queue]
            if not queues:
                del self._by_task[job.task]

    def of(self, tasks: Iterable[str], queues: tuple[str, ...]) -> list[Lane]:
        """The lanes of these tasks in these queues (empty: all queues)."""
        found: list[Lane] = []
        for task in tasks:
            lanes = self._by_task.get(task, {})
            if queues:
                found.extend(lanes[queue] for queue in dict.fromkeys(queues) if queue in lanes)
            else:
                found.extend(lanes.values())
        return found
