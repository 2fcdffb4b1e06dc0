"""Rows of limited keys: admitted, running and held jobs, rates and cool-downs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from offpath.model.job import BlockReason, JobRecord, JobState
from offpath.model.joined_limits import costs_of, is_joined, keys_of
from offpath.model.limit import LimitPart, LimitSpec
from offpath.model.rate import RateState
from offpath.store.memory.indexes import LazyHeap
from offpath.store.memory.lanes import Place, place_of

_RUNNING = JobState.RUNNING


class MemoryLimit(Struct):
    """One key."""

    key: str
    spec: LimitSpec
    ready: dict[str, datetime] = {}
    """Admitted jobs that nobody has taken, and since when, the longest first."""
    running: set[str] = set()
    held: dict[str, LazyHeap[Place]] = {}
    """Held jobs by queue, in the order in which they will be admitted."""
    unended: int = 0
    rate: RateState | None = None
    closed_until: datetime | None = None
    paused: bool = False
    shared: int = 0
    """Taken by jobs that have this limit with others, at their costs."""
    lines: dict[str, int] = {}
    """The lines of those jobs by their joined keys, and the cost of each."""

    def ends_at(self, now: datetime) -> datetime | None:
        """The end of its cool-down, None when there is none."""
        closed = self.closed_until
        return closed if closed is not None and now < closed else None

    def room(self, now: datetime) -> float:
        """The number of further jobs that may be admitted, the rate aside."""
        if self.paused or self.ends_at(now) is not None:
            return 0
        if self.spec.max_running is None:
            return float("inf")
        return max(self.spec.max_running - self.taken, 0)

    @property
    def taken(self) -> int:
        """The room that its admitted jobs have."""
        return len(self.ready) + len(self.running) + self.shared


class Limits:
    """All keys that have jobs, or are closed, or whose rate remembers something."""

    __slots__ = ("_behind", "rows", "waiting")

    def __init__(self) -> None:
        self.rows: dict[str, MemoryLimit] = {}
        self.waiting: dict[str, None] = {}
        """Keys with held jobs, in the order in which they get their turns."""
        self._behind: dict[str, Place] = {}  # jobs that were sent behind others

    def agree(self, spec: LimitSpec) -> None:
        """Take over the limit of the last enqueue of a key."""
        self.row(spec.key)
        for part in spec.parts:
            self.row(part.key).spec = _own(part)
        if not spec.parts:
            self.rows[spec.key].spec = spec

    def row(self, key: str, spec: LimitSpec | None = None) -> MemoryLimit:
        """The row of a key, made when there is none; that of a joined key with those of its
        limits.
        """
        row = self.rows.get(key)
        if row is None:
            parts = () if spec is None else spec.parts
            row = self.rows[key] = MemoryLimit(key, _plain(key) if spec is None or parts else spec)
            said = {part.key: _own(part) for part in parts}
            for name, cost in costs_of(key) if is_joined(key) else ():
                self.row(name, said.get(name)).lines[key] = cost
        return row

    def line(self, key: str) -> list[tuple[MemoryLimit, int]]:
        """The limits that a key stands for, and the cost of each."""
        return [(self.rows[name], cost) for name, cost in costs_of(key)]

    def sharing(self, keys: Iterable[str]) -> list[str]:
        """The waiting keys that share a limit with these, in their turns; none where no job that
        waits has several limits.
        """
        names = {name for key in keys for name in keys_of(key)}
        lines = {
            line
            for name in names & self.rows.keys()
            for line in self.rows[name].lines
            if line in self.waiting
        }
        near = names.union(*(keys_of(line) for line in lines), lines) if lines else ()
        return [key for key in self.waiting if key in near] if lines else []

    def forget(self, key: str) -> None:
        """Remove a row that nobody needs."""
        del self.rows[key]
        for name, _ in costs_of(key) if is_joined(key) else ():
            if name in self.rows:
                self.rows[name].lines.pop(key, None)

    def _share(self, row: MemoryLimit, by: int) -> None:
        """One more or less of the line's jobs has room."""
        if is_joined(row.key):
            for limit, cost in self.line(row.key):
                limit.shared += by * cost

    def enter(self, job: JobRecord, spec: LimitSpec | None, now: datetime) -> None:
        """A job of a key is in this state now."""
        if job.state.terminal or job.limit_key is None:
            # Ended, it loses the place behind others: put back, it has its own one.
            self._behind.pop(job.id, None)
            return
        row = self.row(job.limit_key, spec)
        row.unended += 1
        if job.state is _RUNNING:
            row.running.add(job.id)
            self._share(row, 1)
        elif job.state is JobState.QUEUED:
            # A scheduled job has not been admitted yet, so it takes no room.
            if job.run_at <= now:
                row.ready[job.id] = now
                self._share(row, 1)
        elif job.reason == BlockReason.LIMIT.value:
            heap = row.held.setdefault(job.queue, LazyHeap())
            heap.push(job.id, self._behind.get(job.id) or place_of(job))
            self.waiting.setdefault(row.key)

    def leave(self, job: JobRecord) -> None:
        """A job of a key is in this state no more."""
        if job.state.terminal or job.limit_key is None:
            return
        row = self.rows[job.limit_key]
        row.unended -= 1
        if job.state is _RUNNING:
            row.running.discard(job.id)
            self._share(row, -1)
            return
        if row.ready.pop(job.id, None) is not None:
            self._share(row, -1)
            return
        heap = row.held.get(job.queue)
        if heap is not None and heap.remove(job.id) and not len(heap):
            del row.held[job.queue]
            if not row.held:
                self.waiting.pop(row.key, None)

    def send_behind(self, job: JobRecord, last: Place, now: datetime) -> None:
        """Put this job, when it is held, behind the one at ``last``."""
        self._behind[job.id] = (max(-job.priority, last[0]), max(now, last[1]), job.id)

    def come_forward(self, job: JobRecord) -> None:
        """Let this job take its own place again, from when it is next filed."""
        self._behind.pop(job.id, None)


def _plain(key: str) -> LimitSpec:
    return LimitSpec(key=key)


def _own(part: LimitPart) -> LimitSpec:
    """A part of several limits as the limit of its key."""
    return LimitSpec(key=part.key, max_running=part.max_running, rate=part.rate)
