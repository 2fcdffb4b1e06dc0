"""Rows of gates: their counts, and the jobs that they watch and hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from offpath.model.gate import Counting, GateState, NewGate, verdict
from offpath.model.job import JobRecord, JobState
from offpath.store.memory.instants import maybe_later

_DONE = JobState.SUCCEEDED


class MemoryGate(Struct):
    """A gate, with how many of the watched jobs have ended how."""

    id: str
    on: tuple[str, ...]
    need: int
    of: Counting
    deadline: datetime | None
    state: GateState = GateState.OPEN
    succeeded: int = 0
    failed: int = 0

    def count(self, job: JobRecord, by: int) -> None:
        """A watched job has ended, or (``by`` -1) is put back."""
        if job.state is _DONE:
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
        row = MemoryGate(new.id, on, need, new.of, maybe_later(now, new.timeout))
        self.rows[new.id] = row
        for each in on:
            self.watchers.setdefault(each, {})[new.id] = None
            self._over.setdefault(each, {})[new.id] = None
            job = jobs.get(each)
            if job is not None and job.state.terminal:
                row.count(job, 1)
        self._judge(row)

    def hold(self, job_id: str, gate_id: str) -> None:
        """A new job waits at a gate; one that is not open any more decides about it at once."""
        self.held.setdefault(gate_id, {})[job_id] = None
        self._of[job_id] = gate_id
        row = self.rows[gate_id]
        if row.state is not GateState.OPEN:
            self.decided.append(row)

    def deadline_of(self, job: JobRecord) -> datetime | None:
        """Until when this job waits at its gate, if it does and the gate has a time."""
        row = None if job.gate is None else self.rows.get(job.gate)
        return None if row is None else row.deadline

    def counted(self, job: JobRecord, by: int) -> None:
        """A watched job has ended (``by`` 1), or one that had ended is put back (-1)."""
        if job.id not in self.watchers:
            return
        for gate_id in tuple(self.watchers[job.id]):
            row = self.rows[gate_id]
            row.count(job, by)
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
