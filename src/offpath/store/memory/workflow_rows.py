"""Rows of signals and recorded steps, each with what finds them at once."""

from __future__ import annotations

from datetime import datetime

from offpath.model.job import JobRecord, JobState
from offpath.model.wait import NewSignal
from offpath.store.memory.group_rows import FAILED
from offpath.store.memory.indexes import LazyHeap
from offpath.store.memory.waits import Address


class Signals:
    """All signals whose time is not over, taken ones included: sent again, they change nothing."""

    __slots__ = ("called", "expiring", "left", "rows", "unread", "waiting")

    def __init__(self) -> None:
        self.rows: dict[str, NewSignal] = {}
        self.waiting: dict[Address, dict[str, datetime]] = {}
        """Untaken ones by address, the oldest first, with the end of each."""
        self.unread: dict[str, dict[str, datetime]] = {}
        """The same by target alone."""
        self.expiring: LazyHeap[datetime] = LazyHeap()
        self.called: dict[str, Address] = {}
        """Jobs that were woken for a signal and have not taken it, and for which."""
        self.left: dict[Address, None] = {}
        """The addresses where a job that was woken has ended without taking the signal."""

    def call(self, job_id: str, address: Address) -> None:
        """This job is woken for a signal."""
        self.called[job_id] = address

    def ended(self, job_id: str) -> None:
        """This job takes nothing any more."""
        address = self.called.pop(job_id, None)
        # Where no signal is left, nobody has to be woken in its place.
        if address in self.waiting:
            self.left[address] = None

    def keep(self, signal: NewSignal, until: datetime) -> None:
        """File a new one."""
        self.rows[signal.id] = signal
        self.waiting.setdefault((signal.target, signal.event), {})[signal.id] = until
        self.unread.setdefault(signal.target, {})[signal.id] = until
        self.expiring.push(signal.id, until)

    def full(self, signal: NewSignal, now: datetime) -> bool:
        """True if its target has as many as it may have."""
        unread = self.unread.get(signal.target, {})
        if signal.most is None or len(unread) < signal.most:
            return False
        # Those whose time is over stand here until the next pass, and must not fill the target.
        return sum(now < until for until in unread.values()) >= signal.most

    def first(self, address: Address, now: datetime) -> NewSignal | None:
        """The oldest that can be taken."""
        for each, until in self.waiting.get(address, {}).items():
            if now < until:
                return self.rows[each]
        return None

    def take(self, signal: NewSignal) -> None:
        """It waits no more; its id stays known until its time is over."""
        address = signal.target, signal.event
        waiting = self.waiting.get(address, {})
        waiting.pop(signal.id, None)
        if not waiting:
            self.waiting.pop(address, None)
        unread = self.unread.get(signal.target, {})
        unread.pop(signal.id, None)
        if not unread:
            self.unread.pop(signal.target, None)

    def expire(self, now: datetime, limit: int) -> None:
        """Forget those whose time is over."""
        for _ in range(limit):
            first = self.expiring.first()
            if first is None or now < first[0]:
                return
            self.expiring.remove(first[1])
            self.take(self.rows.pop(first[1]))


class Steps:
    """The records of all jobs."""

    __slots__ = ("results", "times", "to_undo", "undo")

    def __init__(self) -> None:
        self.results: dict[str, dict[str, str | None]] = {}
        """Job to the results of its steps by name."""
        self.times: dict[str, dict[str, datetime]] = {}
        """Job to the times when its steps were recorded, by name."""
        self.undo: dict[str, dict[str, str]] = {}
        """Job to what undoes its steps, by name, in the order of first calls."""
        self.to_undo: dict[str, None] = {}
        """Dead and cancelled jobs that have something to undo."""

    def record(self, job_id: str, name: str, result: str | None, now: datetime) -> str | None:
        """Record a result once; what is recorded."""
        known = self.results.setdefault(job_id, {})
        if name not in known:
            known[name] = result
            self.times.setdefault(job_id, {})[name] = now
        return known[name]

    def moved(self, job: JobRecord) -> None:
        """A job has ended, or was put back."""
        if job.id not in self.undo:
            return
        if job.state in FAILED:
            self.to_undo[job.id] = None
            return
        self.to_undo.pop(job.id, None)
        # What has succeeded is never undone.
        if job.state is JobState.SUCCEEDED:
            del self.undo[job.id]

    def forget(self, job_id: str) -> None:
        """A job is gone, or has been undone."""
        self.results.pop(job_id, None)
        self.times.pop(job_id, None)
        self.undo.pop(job_id, None)
        self.to_undo.pop(job_id, None)
