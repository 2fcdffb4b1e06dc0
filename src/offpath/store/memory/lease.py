"""Handing out ready jobs: best first within a queue, a fair share between queues."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from offpath.model.job import JobRecord, JobState
from offpath.model.lease import Leased, LeaseRequest, Order
from offpath.store.memory import pauses, suspects
from offpath.store.memory.lanes import Lane
from offpath.store.memory.tables import Tables
from offpath.store.rows.jobs import arrived, handed_out, leased

# A bound: where a million jobs are due at one moment, a lease that made all of them ready would
# hold up every other transition.
_PROMOTED_AT_ONCE = 1000

Rank = tuple[Any, ...]
"""Orders compare ranks of their own kind only."""


class Promoted(Struct, frozen=True):
    """The fates of scheduled jobs whose time has come."""

    all: bool
    """False: some had to be left for the next time."""
    held: bool = False
    """True if some wait to be admitted now."""


def lease(tables: Tables, now: datetime, request: LeaseRequest) -> tuple[Leased, bool]:
    """Hand out the best ready jobs of the lanes that were asked for; also whether jobs came to
    wait for their limits.
    """
    worker = tables.workers.get(request.worker)
    # A worker whose lease is over gets nothing: a rescue could take the jobs back while it begins
    # them.
    if worker is None or worker.expires_at <= now:
        return Leased(jobs=(), now=now), False
    lanes = _lanes(tables, now, request)
    # Before the choice: what came due competes with what was ready.
    promoted = _promote(tables, now, lanes)
    if request.suspects_only:
        return suspects.lease(tables, now, request), promoted.held
    # Suspects are handed out by a request of their own. They are put back below, before anybody
    # else can look: nothing here waits.
    aside = _put_aside(tables, lanes, (*request.declined, *tables.suspects.crash_of))
    taking = _Taking(tables, now, request, lanes)
    taken = taking.take()
    # Asked before the jobs that were put aside come back, for those count as nothing that could be
    # had. What was left unpromoted may be due, so the worker asks again at once.
    more = taking.more() or not promoted.all
    for job in (*aside, *taking.waiting):
        tables.lanes.add(job, now)
    answer = Leased(
        jobs=tuple(leased(job) for job in taken), now=now, more=more, due_in=_due_in(lanes, now)
    )
    return answer, promoted.held


def _lanes(tables: Tables, now: datetime, request: LeaseRequest) -> list[Lane]:
    """The lanes that have room and are not paused."""
    tasks = [task for task, room in request.tasks.items() if room > 0]
    return [
        lane
        for lane in tables.lanes.of(tasks, request.queues)
        if request.queue_rooms.get(lane.queue, 1) > 0 and not pauses.paused(tables, now, lane.queue)
    ]


def _promote(tables: Tables, now: datetime, lanes: Iterable[Lane]) -> Promoted:
    """Make due scheduled jobs ready, or let them wait for their limits."""
    budget, held = _PROMOTED_AT_ONCE, list[JobRecord]()
    for lane in lanes:
        due = [tables.jobs[each] for each in lane.due(now, budget)]
        budget -= len(due)
        for job in due:
            if job.limit_key is None:
                lane.make_ready(job)
            else:
                held.append(job)
                lane.scheduled.push(job.id, job.run_at)  # filing takes it out of where it was
        if budget == 0:
            break
    # Behind the walk: filing a job takes it out of the lanes that are walked.
    for job in held:
        tables.file(arrived(job, now), now)
    return Promoted(all=budget > 0, held=bool(held))


def _put_aside(tables: Tables, lanes: Iterable[Lane], declined: Iterable[str]) -> list[JobRecord]:
    """Take out the ready jobs that are to be passed over; they are to be put back afterwards."""
    by_place = {(lane.queue, lane.task): lane for lane in lanes}
    aside = list[JobRecord]()
    for each in declined:
        job = tables.jobs.get(each)
        lane = None if job is None else by_place.get((job.queue, job.task))
        if job is not None and lane is not None and each in lane.ready:
            lane.remove(job)
            aside.append(job)
    return aside


def _due_in(lanes: Iterable[Lane], now: datetime) -> float | None:
    due = min((at for lane in lanes if (at := lane.due_at())), default=None)
    return None if due is None else max((due - now).total_seconds(), 0.0)


Head = tuple[Rank, Lane]
"""The rank of the best job of a lane, whose last part is the job's id; and the lane."""


class _QueueLanes(Protocol):
    """The lanes of one queue that still have room."""

    def best(self) -> Head | None:
        """The best job of all."""
        ...

    def moved_on(self) -> None:
        """The best one was handed out."""
        ...


class _Merged:
    """A line in which the order of jobs stays as it is while they are handed out."""

    __slots__ = ("_first", "_heads", "_rooms")

    def __init__(
        self,
        lanes: Iterable[Lane],
        rooms: Mapping[str, float],
        first: Callable[[Lane], Rank | None],
    ) -> None:
        self._first = first
        self._rooms = rooms
        self._heads = [(rank, lane) for lane in lanes if (rank := first(lane))]
        heapq.heapify(self._heads)

    def best(self) -> Head | None:
        heads = self._heads
        # A lane without room is thrown out when it comes to the top, and not before: the rooms
        # change with each job that is taken.
        while heads and self._rooms[heads[0][1].task] <= 0:
            heapq.heappop(heads)
        return heads[0] if heads else None

    def moved_on(self) -> None:
        lane = self._heads[0][1]
        rank = self._first(lane)
        if rank is None:
            heapq.heappop(self._heads)
        else:
            heapq.heapreplace(self._heads, (rank, lane))


class _Balanced:
    """A line in which the key with the fewest running jobs comes first: that changes each time."""

    __slots__ = ("_lanes", "_rooms", "_tables")

    def __init__(self, tables: Tables, lanes: Iterable[Lane], rooms: Mapping[str, float]) -> None:
        self._tables = tables
        self._lanes = list(lanes)
        self._rooms = rooms

    def best(self) -> Head | None:
        return min(self._heads(), key=lambda head: head[0], default=None)

    def moved_on(self) -> None:
        """Nothing is kept."""

    def _heads(self) -> Iterator[Head]:
        running = self._tables.running_of
        for lane in self._lanes:
            if self._rooms[lane.task] > 0:
                for key, turns in lane.by_key(self._tables.jobs).items():
                    if first := turns.first():
                        yield (running.get(key, 0), *first[0]), lane


class _Taking:
    """One lease. In each step the queue that was served least gives its best job.

    Jobs that wait for their unique key are taken out of their lanes, so that they hide nobody; they
    are to be put back afterwards.
    """

    __slots__ = (
        "_lines",
        "_now",
        "_queue_rooms",
        "_released",
        "_request",
        "_served",
        "_tables",
        "_task_rooms",
        "waiting",
    )

    def __init__(
        self, tables: Tables, now: datetime, request: LeaseRequest, lanes: Iterable[Lane]
    ) -> None:
        self._tables = tables
        self._now = now
        self._request = request
        self._task_rooms = _bounds(request.tasks, request.limit)
        self._queue_rooms = _bounds(request.queue_rooms, request.limit)
        self._served = dict(request.served)
        self._released = set[str]()
        self.waiting: list[JobRecord] = []
        by_queue: dict[str, list[Lane]] = {}
        for lane in lanes:
            by_queue.setdefault(lane.queue, []).append(lane)
        self._lines = {queue: self._line(lanes) for queue, lanes in by_queue.items()}

    def take(self) -> list[JobRecord]:
        """Take up to the limit, best first."""
        taken: list[tuple[Rank, JobRecord]] = []
        while len(taken) < self._request.limit and (best := self._best()):
            queue, (rank, lane) = best
            ready = self._tables.jobs[rank[-1]]
            self._note_key(ready)
            job = handed_out(ready, self._request.worker, self._now)
            self._tables.file(job, self._now)
            taken.append((rank, job))
            self._lines[queue].moved_on()
            self._served[queue] = self._served.get(queue, 0) + 1
            self._task_rooms[lane.task] -= 1
            self._use_queue(queue)
        # The turns of the queues have mixed the order, and a worker begins with the best. A
        # balanced lease has no other order than its turns.
        if self._request.order is not Order.BALANCED:
            taken.sort(key=lambda each: each[0])
        return [job for _, job in taken]

    def more(self) -> bool:
        """True if more could be had with the room that is left."""
        return self._best() is not None

    def _line(self, lanes: list[Lane]) -> _QueueLanes:
        jobs = self._tables.jobs
        match self._request.order:
            case Order.PRIORITY:
                return _Merged(lanes, self._task_rooms, lambda each: _rank(each.ready.first()))
            case Order.AGE:
                return _Merged(
                    lanes, self._task_rooms, lambda each: _rank(each.by_age(jobs).first())
                )
            case Order.BALANCED:
                return _Balanced(self._tables, lanes, self._task_rooms)

    def _best(self) -> tuple[str, Head] | None:
        while best := self._first():
            queue, (rank, lane) = best
            job = self._tables.jobs[rank[-1]]
            if not self._awaits_key(job):
                return best
            lane.remove(job)
            self.waiting.append(job)
            self._lines[queue].moved_on()
        return None

    def _note_key(self, job: JobRecord) -> None:
        """Note the unique key that a job gives up as it begins, if it has one."""
        if job.unique_key is not None and self._tables.keys.get(job.unique_key) == job.id:
            self._released.add(job.unique_key)

    def _awaits_key(self, job: JobRecord) -> bool:
        """True if a job must wait for its unique key.

        One lease is one look: a key that is given up in it is free for the next lease only.
        Whichever of its jobs is taken first, the answer is the same.
        """
        tables = self._tables
        if tables.awaits_key(job, self._now):
            return True
        in_scope = tables.terms(job.id).in_scope(JobState.RUNNING, self._now)
        return job.unique_key in self._released and in_scope

    def _first(self) -> tuple[str, Head] | None:
        heads = [(queue, head) for queue, line in self._lines.items() if (head := line.best())]
        if len(heads) == 1:
            return heads[0]
        # The queue that was served least comes first, whatever its priorities: a busy queue of high
        # priority would otherwise starve the others.
        return min(
            heads,
            key=lambda each: (self._served.get(each[0], 0), each[1][0]),
            default=None,
        )

    def _use_queue(self, queue: str) -> None:
        if queue in self._queue_rooms:
            self._queue_rooms[queue] -= 1
            if self._queue_rooms[queue] <= 0:
                del self._lines[queue]


def _rank(first: tuple[Rank, str] | None) -> Rank | None:
    return None if first is None else first[0]


def _bounds(counts: Mapping[str, int], limit: int) -> dict[str, float]:
    """The number of each that may be had. The limit as a whole is never a bound of their own."""
    return {name: n if n < limit else float("inf") for name, n in counts.items() if n > 0}
