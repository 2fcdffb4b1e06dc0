"""Rows of signals, by id and by address."""

from __future__ import annotations

from datetime import datetime

from offpath.model.wait import NewSignal
from offpath.store.memory.heap import LazyHeap
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
