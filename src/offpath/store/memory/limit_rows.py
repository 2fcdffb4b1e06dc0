"""Rows of limited keys: admitted, running and held jobs, rates and cool-downs."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.job import BlockReason, JobRecord, JobState
from offpath.model.limit import LimitSpec
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
        return max(self.spec.max_running - len(self.ready) - len(self.running), 0)


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
        self.row(spec.key).spec = spec

    def row(self, key: str, spec: LimitSpec | None = None) -> MemoryLimit:
        """The row of a key, made when there is none."""
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = MemoryLimit(key, spec or LimitSpec(key=key))
        return row

    def enter(self, job: JobRecord, spec: LimitSpec | None, now: datetime) -> None:
        """A job of a key is in this state now."""
        if job.state.terminal or job.limit_key is None:
            self._behind.pop(job.id, None)
            return
        row = self.row(job.limit_key, spec)
        row.unended += 1
        if job.state is _RUNNING:
            row.running.add(job.id)
        elif job.state is JobState.QUEUED:
            if job.run_at <= now:
                row.ready[job.id] = now
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
            return
        if row.ready.pop(job.id, None) is not None:
            return
        heap = row.held.get(job.queue)
        if heap is not None and heap.remove(job.id) and not len(heap):
            del row.held[job.queue]
            if not row.held:
                self.waiting.pop(row.key, None)

    def send_behind(self, job: JobRecord, last: Place, now: datetime) -> None:
        """Put this job, when it is held, behind the one at ``last``."""
        self._behind[job.id] = (max(-job.priority, last[0]), max(now, last[1]), job.id)
