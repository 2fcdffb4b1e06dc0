"""Lanes: the waiting jobs of one queue and task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from offpath.model.job import JobRecord
from offpath.store.memory.indexes import LazyHeap

Place = tuple[int, datetime, str]
"""The place of a ready job: higher priority, then earlier run time, then lower id comes first."""


Age = tuple[datetime, str]
"""The time when a job was enqueued, and its id."""
Turn = tuple[int, datetime, str]
"""The place of a ready job among those of its fair key: priority, then age."""


def place_of(job: JobRecord) -> Place:
    """The rank of a ready job."""
    return -job.priority, job.run_at, job.id


def age_of(job: JobRecord) -> Age:
    """The rank of a ready job where only its age matters."""
    return job.enqueued_at, job.id


def turn_of(job: JobRecord) -> Turn:
    """The rank of a ready job among those of its fair key."""
    return -job.priority, job.enqueued_at, job.id


class Lane:
    """Ready jobs by place, scheduled ones by run time: no lease walks over the latter.

    The other orders of ready jobs are made when somebody first asks for them, and kept from then.
    """

    __slots__ = ("_by_age", "_by_key", "queue", "ready", "scheduled", "task")

    def __init__(self, queue: str, task: str) -> None:
        self.queue = queue
        self.task = task
        self.ready: LazyHeap[Place] = LazyHeap()
        self.scheduled: LazyHeap[datetime] = LazyHeap()
        self._by_age: LazyHeap[Age] | None = None
        self._by_key: dict[str | None, LazyHeap[Turn]] | None = None

    def __bool__(self) -> bool:
        return len(self.ready) > 0 or len(self.scheduled) > 0

    def add(self, job: JobRecord, now: datetime) -> None:
        """Let a job wait here."""
        if job.run_at > now:
            self.scheduled.push(job.id, job.run_at)
        else:
            self.make_ready(job)

    def make_ready(self, job: JobRecord) -> None:
        """Let a due job wait for a lease."""
        self.ready.push(job.id, place_of(job))
        if self._by_age is not None:
            self._by_age.push(job.id, age_of(job))
        if self._by_key is not None:
            _push(self._by_key, job)

    def remove(self, job: JobRecord) -> None:
        """The job waits here no more."""
        if not self.ready.remove(job.id):
            self.scheduled.remove(job.id)
            return
        if self._by_age is not None:
            self._by_age.remove(job.id)
        if self._by_key is not None:
            turns = self._by_key[job.fair_key]
            turns.remove(job.id)
            if not len(turns):
                # A balanced lease looks at the first job of each key, so keys without jobs must not
                # pile up.
                del self._by_key[job.fair_key]

    def by_age(self, jobs: Mapping[str, JobRecord]) -> LazyHeap[Age]:
        """Ready jobs, the oldest first."""
        if self._by_age is None:
            self._by_age = LazyHeap()
            for each in self.ready:
                self._by_age.push(each, age_of(jobs[each]))
        return self._by_age

    def by_key(self, jobs: Mapping[str, JobRecord]) -> dict[str | None, LazyHeap[Turn]]:
        """Ready jobs by fair key, of each the best first."""
        if self._by_key is None:
            self._by_key = {}
            for each in self.ready:
                _push(self._by_key, jobs[each])
        return self._by_key

    def due(self, now: datetime, limit: int) -> list[str]:
        """Up to ``limit`` scheduled jobs whose time has come, which are taken out."""
        found: list[str] = []
        while len(found) < limit and (first := self.scheduled.first()) and first[0] <= now:
            self.scheduled.remove(first[1])
            found.append(first[1])
        return found

    def due_at(self) -> datetime | None:
        """The time when the first scheduled job is due."""
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
        lane.remove(job)
        if not lane:
            del queues[job.queue]
            if not queues:
                del self._by_task[job.task]

    def is_ready(self, job: JobRecord) -> bool:
        """True if a waiting job is ready, and not scheduled."""
        return job.id in self._by_task[job.task][job.queue].ready

    def of(self, tasks: Iterable[str], queues: tuple[str, ...]) -> list[Lane]:
        """The lanes of these tasks in these queues (empty: all queues)."""
        found: list[Lane] = []
        for task in tasks:
            lanes = self._by_task.get(task, {})
            if queues:
                # A queue that is named twice must not bring its lane into the choice twice.
                found.extend(lanes[queue] for queue in dict.fromkeys(queues) if queue in lanes)
            else:
                found.extend(lanes.values())
        return found


def _push(by_key: dict[str | None, LazyHeap[Turn]], job: JobRecord) -> None:
    turns = by_key.get(job.fair_key)
    if turns is None:
        turns = by_key[job.fair_key] = LazyHeap()
    turns.push(job.id, turn_of(job))
