"""Rows of gates, groups, signals and recorded steps, each with what finds them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from offpath.model.gate import Counting, GateState, NewGate, verdict
from offpath.model.group import Contribution, GroupPolicy
from offpath.model.job import TERMINAL, JobRecord, JobState
from offpath.model.wait import NewSignal
from offpath.store.memory.indexes import LazyHeap
from offpath.store.memory.waits import Address
from offpath.store.refusals import fold_raised
from offpath.store.rows.instants import maybe_later

_DONE = JobState.SUCCEEDED


_FAILED = (JobState.DEAD, JobState.CANCELLED)


RETRACTABLE = (GateState.OPEN, GateState.UNSATISFIABLE)
"""States in which a gate may yet fire: what it watches may be put back."""


class MemoryGate(Struct):
    """A gate, with how many of the watched jobs have ended how."""

    id: str
    on: tuple[str, ...]
    need: int
    of: Counting
    deadline: datetime | None
    state: GateState = GateState.OPEN
    descendants: bool = False
    early: frozenset[str] = frozenset()
    """The watched jobs that were not there when the gate was made."""
    ended: dict[str, bool] = field(default_factory=dict)
    """Watched jobs that have ended, and whether they succeeded."""
    succeeded: int = 0
    failed: int = 0

    def count(self, job: JobRecord) -> None:
        """A watched job has ended."""
        self.ended[job.id] = job.state is _DONE
        self._sum(job.id, 1)

    def uncount(self, job_id: str) -> None:
        """A watched job that had ended is put back."""
        if job_id in self.ended:
            if self.state is GateState.OPEN:
                self._sum(job_id, -1)
            del self.ended[job_id]

    def recount(self, jobs: Mapping[str, JobRecord]) -> None:
        """Count the watched jobs as they are now; of one that is gone counts what was counted."""
        for each in self.on:
            job = jobs.get(each)
            if job is not None:
                self.ended.pop(each, None)
                if job.state in TERMINAL:
                    self.ended[each] = job.state is _DONE
        gone = [each for each in self.on if each not in jobs and each not in self.ended]
        self.succeeded = sum(self.ended.values())
        self.failed = len(self.ended) - self.succeeded + len(set(gone) - self.early)

    def _sum(self, job_id: str, by: int) -> None:
        if self.ended[job_id]:
            self.succeeded += by
        else:
            self.failed += by

    def judged(self) -> GateState:
        """The gate's state that its counts amount to."""
        return verdict(
            need=self.need,
            of=self.of,
            total=len(self.on),
            succeeded=self.succeeded,
            failed=self.failed,
        )


class Gates:
    """All gates of one store, and which jobs they watch and hold."""

    __slots__ = ("_of", "_over", "decided", "held", "rows", "watchers")

    def __init__(self) -> None:
        self.rows: dict[str, MemoryGate] = {}
        self.watchers: dict[str, dict[str, None]] = {}
        """A job to the open gates that watch it."""
        self.held: dict[str, dict[str, None]] = {}
        """A gate to the jobs that it holds or held, in the order in which they came."""
        self._of: dict[str, str] = {}  # a job to the gate that holds or held it
        self._over: dict[str, dict[str, None]] = {}  # a job to the gates that watch or watched it
        self.decided: list[MemoryGate] = []
        """Gates that are no more open, whose jobs have not been told."""

    def add(
        self, new: NewGate, on: tuple[str, ...], now: datetime, jobs: Mapping[str, JobRecord]
    ) -> None:
        """File a new gate. What has ended already counts at once."""
        if new.id in self.rows:
            return
        need = min(new.need, len(on))
        early = frozenset(each for each in on if each not in jobs)
        row = MemoryGate(new.id, on, need, new.of, maybe_later(now, new.timeout), early=early)
        row.descendants = new.descendants
        self.rows[new.id] = row
        for each in on:
            self.watchers.setdefault(each, {})[new.id] = None
            self._over.setdefault(each, {})[new.id] = None
            job = jobs.get(each)
            if job is not None and job.state.terminal:
                row.count(job)
        self._judge(row)

    def lead_on(
        self, job_id: str, led: Sequence[tuple[str, str | None]], jobs: Mapping[str, JobRecord]
    ) -> None:
        """Gates that watch a job with all that it leads to watch these new ones, too: each with
        the gate that holds it.
        """
        for gate_id in tuple(self.watchers.get(job_id, ())):
            row = self.rows[gate_id]
            if not row.descendants:
                continue
            known = set(row.on)
            new = [each for each, held in led if held != gate_id and each not in known]
            row.on += tuple(dict.fromkeys(new))
            row.need = len(row.on)
            for each in dict.fromkeys(new):
                self.watchers.setdefault(each, {})[gate_id] = None
                self._over.setdefault(each, {})[gate_id] = None
                if each in jobs and jobs[each].state.terminal:
                    row.count(jobs[each])

    def hold(self, job_id: str, gate_id: str) -> None:
        """A new job waits at a gate; one that is not open any more decides about it at once."""
        self.held.setdefault(gate_id, {})[job_id] = None
        self._of[job_id] = gate_id
        row = self.rows[gate_id]
        if row.state is not GateState.OPEN:
            self.decided.append(row)

    def deadline_of(self, job: JobRecord) -> datetime | None:
        """The time until which this job waits at its gate, if it does and the gate has a time."""
        row = None if job.gate is None else self.rows.get(job.gate)
        return None if row is None else row.deadline

    def counted(self, job: JobRecord) -> None:
        """A watched job has ended."""
        if job.id not in self.watchers:
            return
        for gate_id in tuple(self.watchers[job.id]):
            row = self.rows[gate_id]
            row.count(job)
            self._judge(row)

    def uncounted(self, job_id: str) -> None:
        """A watched job that had ended is put back: a gate that has fired counts it still."""
        for row in self.over(job_id):
            if row.state in RETRACTABLE:
                row.uncount(job_id)

    def over(self, job_id: str) -> list[MemoryGate]:
        """The gates that watch or watched a job."""
        return [self.rows[gate_id] for gate_id in self._over.get(job_id, ())]

    def reopen(self, row: MemoryGate, deadline: datetime | None) -> None:
        """A gate that could not fire is open again."""
        row.state, row.deadline = GateState.OPEN, deadline
        for each in row.on:
            self.watchers.setdefault(each, {})[row.id] = None
        self._judge(row)

    def end(self, row: MemoryGate, state: GateState) -> None:
        """A gate is open no more: it watches nobody."""
        row.state = state
        for each in row.on:
            _leave(self.watchers, each, row.id)

    def waiting_for(self, job_id: str) -> Iterator[str]:
        """The jobs that are or were held by gates that watch or watched this one."""
        for gate_id in self._over.get(job_id, ()):
            yield from self.held.get(gate_id, ())

    def watched_for(self, job_id: str) -> list[str]:
        """The jobs that the gate of this one watches or watched."""
        gate_id = self._of.get(job_id)
        return [] if gate_id is None else list(self.rows[gate_id].on)

    def forget(self, job_id: str) -> None:
        """A job is gone; its gate goes with the last one that it held."""
        gate_id = self._of.pop(job_id, None)
        if gate_id is None:
            return
        self.held[gate_id].pop(job_id, None)
        if not self.held[gate_id]:
            del self.held[gate_id]
            row = self.rows.pop(gate_id)
            self.end(row, row.state)
            for each in row.on:
                _leave(self._over, each, gate_id)

    def _judge(self, row: MemoryGate) -> None:
        state = row.judged()
        if state is not GateState.OPEN:
            self.end(row, state)
            self.decided.append(row)


def _leave(gates: dict[str, dict[str, None]], job_id: str, gate_id: str) -> None:
    """This gate is none of the job's any more."""
    left = gates.get(job_id, {})
    left.pop(gate_id, None)
    if not left:
        gates.pop(job_id, None)


class MemoryValue(Struct, frozen=True):
    """The value that a group has made so far."""

    payload: str | None = None
    final: bool = False

    def with_one(self, given: Contribution) -> MemoryValue:
        """The value after one more contribution. Raises StoreRejected when its fold raises."""
        if self.final:
            return self
        return MemoryValue(_folded(self.payload, given), given.final)

    def with_plain(self, payload: str) -> MemoryValue:
        """The value after one more that is neither final nor folded."""
        return self if self.final else MemoryValue(payload)


class MemoryGroup(Struct):
    """The facts about a group beside its members."""

    policy: GroupPolicy = GroupPolicy.SETTLE_ALL
    closing: bool = False
    value: MemoryValue = MemoryValue()
    told: bool = False
    """True if its end has been reported."""
    failed_gone: int = 0
    """Members that had failed and were removed."""


class Groups:
    """All groups of one store."""

    __slots__ = ("failed", "members", "open", "rows", "to_close")

    def __init__(self) -> None:
        self.rows: dict[str, MemoryGroup] = {}
        self.members: dict[str, set[str]] = {}
        """Group to all members except the root."""
        self.open: dict[str, set[str]] = {}
        """Group to members that have not ended, except the root."""
        self.failed: dict[str, set[str]] = {}
        """Group to members that are dead or cancelled, except the root."""
        self.to_close: dict[str, None] = {}
        """Groups that are closing and may have members to cancel."""

    def row(self, group_id: str, root: JobRecord | None) -> MemoryGroup:
        """The row of a group, made when there is none."""
        row = self.rows.get(group_id)
        if row is None:
            row = self.rows[group_id] = _row_beside(root)
        return row

    def adopt(self, root: JobRecord, policy: GroupPolicy) -> None:
        """A new root says what becomes of its group, also of one that was there before it."""
        row = self.row(root.id, None)
        row.policy = policy
        if policy is GroupPolicy.FAIL_FAST and (root.id in self.failed or row.failed_gone):
            self.close(root.id, row)

    def count(self, before: JobRecord | None, job: JobRecord, root: JobRecord | None) -> None:
        """A member has become this; ``root`` is the group's, as it is now."""
        group_id, state = job.group_id, job.state
        if group_id != job.id:
            if before is None:
                self.row(group_id, root)
                _join(self.members, group_id, job.id)
            if state in TERMINAL:
                _discard(self.open, group_id, job.id)
            else:
                _join(self.open, group_id, job.id)
            if state in _FAILED:
                _join(self.failed, group_id, job.id)
            elif before is not None:
                _discard(self.failed, group_id, job.id)
        row = self.rows.get(group_id)
        if row is not None:
            self._close_or_not(row, before, job)

    def _close_or_not(self, row: MemoryGroup, before: JobRecord | None, job: JobRecord) -> None:
        redriven = before is not None and before.state in TERMINAL and job.state not in TERMINAL
        if redriven:
            row.closing = False
            self.to_close.pop(job.group_id, None)
        elif job.state in _FAILED and row.policy is GroupPolicy.FAIL_FAST:
            self.close(job.group_id, row)
        elif before is None and row.closing:
            self.to_close[job.group_id] = None

    def close(self, group_id: str, row: MemoryGroup) -> None:
        """Its members are to be cancelled."""
        row.closing = True
        self.to_close[group_id] = None

    def forget(self, job: JobRecord, root: JobRecord | None) -> None:
        """A job is gone; its group goes with the last one. ``root`` is what is left of it."""
        if job.group_id != job.id:
            for index in (self.members, self.failed):
                _discard(index, job.group_id, job.id)
        if root is None and job.group_id not in self.members:
            self.rows.pop(job.group_id, None)
            self.to_close.pop(job.group_id, None)
        elif job.state in _FAILED:
            # The count of failures outlives the jobs that failed: who reads the group later must
            # not see fewer.
            self.row(job.group_id, root).failed_gone += 1

    def report(self, job: JobRecord) -> bool:
        """The last open job has ended: whether that is to be told, which it is once."""
        row = self.rows.get(job.group_id)
        if row is None:
            # A group without a row is told about by its lone job, and once: a job that was put back
            # has told it before.
            return job.redrives == 0
        told, row.told = row.told, True
        return not told


def _row_beside(root: JobRecord | None) -> MemoryGroup:
    """The row of a group that had none: it says what its root has said."""
    # A root that had ended has told the end of its group, so its members do not tell it again.
    ended = root is not None and (root.state.terminal or root.redrives > 0)
    return MemoryGroup(value=_value_beside(root), told=ended)


def _value_beside(root: JobRecord | None) -> MemoryValue:
    return MemoryValue() if root is None else MemoryValue(root.result)


def _folded(so_far: str | None, given: Contribution) -> str:
    if given.fold is None:
        return given.payload
    try:
        return given.fold(so_far, given.payload)
    except Exception as error:
        raise fold_raised(error) from error


def _join(index: dict[str, set[str]], key: str, member: str) -> None:
    members = index.get(key)
    if members is None:
        index[key] = {member}
    else:
        members.add(member)


def _discard(index: dict[str, set[str]], key: str, member: str) -> None:
    """Take a member out, and the key with its last one."""
    members = index.get(key)
    if members is None:
        return
    members.discard(member)
    if not members:
        del index[key]


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
        if job.state in _FAILED:
            self.to_undo[job.id] = None
            return
        self.to_undo.pop(job.id, None)
        if job.state is JobState.SUCCEEDED:
            del self.undo[job.id]

    def forget(self, job_id: str) -> None:
        """A job is gone, or has been undone."""
        self.results.pop(job_id, None)
        self.times.pop(job_id, None)
        self.undo.pop(job_id, None)
        self.to_undo.pop(job_id, None)
