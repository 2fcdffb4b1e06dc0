"""Rows of gates: the jobs that they watch and hold, and what their counts amount to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from offpath.model.gate import Counting, GateState, NewGate, verdict
from offpath.model.job import TERMINAL, JobRecord, JobState
from offpath.store.rows.instants import maybe_later

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
        self.ended[job.id] = job.state is JobState.SUCCEEDED
        self._sum(job.id, 1)

    def uncount(self, job_id: str) -> None:
        """A watched job that had ended is put back."""
        if job_id in self.ended:
            # A gate that could not fire is summed up anew when it is looked at again.
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
                    self.ended[each] = job.state is JobState.SUCCEEDED
        gone = [each for each in self.on if each not in jobs and each not in self.ended]
        self.succeeded = sum(self.ended.values())
        # A job that was removed uncounted has failed. One that never came has not.
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
        # Several named jobs may be one holder: with a higher need it could never fire.
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
            # A gate over descendants waits for all of them.
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
        # A copy: a gate that is decided leaves these while they are walked.
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
