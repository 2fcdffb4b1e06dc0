"""Jobs whose waiting has an end, and those that wait for a signal."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.job import BlockReason, JobRecord
from offpath.store.memory.indexes import LazyHeap

Address = tuple[str, str]
"""The target and the event of a signal."""


class MemoryWait(Struct, frozen=True):
    """The signal that a job waits for, and the end of its wait."""

    address: Address
    until: datetime | None


class Waits:
    """All whose waiting may end by itself: by a time, or by a signal."""

    __slots__ = ("_asked", "_by_address", "until")

    def __init__(self) -> None:
        self.until: LazyHeap[datetime] = LazyHeap()
        """Blocked jobs by the moment at which they are given up or woken; queued ones by their
        deadline."""
        self._asked: dict[str, MemoryWait] = {}
        self._by_address: dict[Address, dict[str, None]] = {}  # the longest waiting first

    def ask(self, job_id: str, wait: MemoryWait) -> None:
        """This job, which is blocked next, waits for a signal."""
        self._asked[job_id] = wait
        self._by_address.setdefault(wait.address, {})[job_id] = None

    def first(self, address: Address) -> str | None:
        """The job that waits longest for this."""
        return next(iter(self._by_address.get(address, ())), None)

    def of(self, job_id: str) -> MemoryWait | None:
        """The wait of a job."""
        return self._asked.get(job_id)

    def enter(self, job: JobRecord, gate_deadline: datetime | None) -> None:
        """A job is blocked, or queued with a deadline."""
        asked = self._asked.get(job.id)
        ends = (job.deadline, gate_deadline, None if asked is None else asked.until)
        if until := min((each for each in ends if each is not None), default=None):
            self.until.push(job.id, until)

    def leave(self, job_id: str) -> None:
        """A job is blocked, or queued, no more."""
        self.until.remove(job_id)
        asked = self._asked.pop(job_id, None)
        if asked is not None:
            waiting = self._by_address[asked.address]
            del waiting[job_id]
            if not waiting:
                del self._by_address[asked.address]


def awaits_gate(job: JobRecord) -> bool:
    """True if a blocked job waits at its gate."""
    return job.reason == BlockReason.GATE.value
