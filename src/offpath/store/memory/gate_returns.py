"""Jobs that wait at their gates again, since what these watch was put back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.model.changes import ChangedJob
from offpath.model.gate import GateState
from offpath.model.job import DeadReason, JobRecord, JobState
from offpath.store.memory import gates
from offpath.store.memory.gate_rows import RETRACTABLE, MemoryGate
from offpath.store.memory.tables import Tables
from offpath.store.rows.jobs import changed, waiting_again

REDRIVABLE = (JobState.DEAD, JobState.CANCELLED)


def waits(tables: Tables, job: JobRecord) -> bool:
    """True if an ended job never came past its gate, and the gate may yet fire."""
    row = None if job.gate is None else tables.gates.rows.get(job.gate)
    return row is not None and job.state in REDRIVABLE and row.state in RETRACTABLE


def died_there(job: JobRecord) -> bool:
    """True if a job died since its gate could not fire."""
    return job.gate is not None and job.reason == DeadReason.UNSATISFIABLE.value


def key_is_taken(tables: Tables, now: datetime, job: JobRecord, state: JobState) -> bool:
    """True if another job holds the unique key that this one would hold in this state."""
    unique = tables.terms(job.id).unique
    if unique is None or state not in unique.states:
        return False
    holder = tables.holder_of(unique.key, now)
    return holder is not None and holder.id != job.id


def bring_back(
    tables: Tables, now: datetime, opened: Sequence[str], behind: Mapping[str, datetime]
) -> list[ChangedJob]:
    """Let jobs wait at their gates again: those that were asked for, and those that had died at
    gates over jobs that are open again, and so on along the chain.
    """
    before: dict[str, JobRecord] = {}
    front, left = opened, dict(behind)
    while front or left:
        came = _reopen_gates(tables, now, front, left)
        came |= {job: at for job, at in left.items() if _is_open(tables, job)}
        left = {job: at for job, at in left.items() if job not in came}
        front = []
        for job_id, run_at in sorted(came.items()):
            job = tables.jobs[job_id]
            # A redrive leaves a job alone whose unique key another one has taken.
            if not key_is_taken(tables, now, job, JobState.BLOCKED):
                _wait_again(tables, now, job, run_at)
                before[job_id] = job
                front.append(job_id)
        gates.follow(tables, now, None)
        if not front:  # those that are left wait for jobs that stay as they are
            break
    return [changed(job, tables.jobs[job_id]) for job_id, job in before.items()]


def _is_open(tables: Tables, job_id: str) -> bool:
    gate_id = tables.jobs[job_id].gate
    row = None if gate_id is None else tables.gates.rows.get(gate_id)
    return row is not None and row.state is not GateState.UNSATISFIABLE


def _reopen_gates(
    tables: Tables, now: datetime, opened: Sequence[str], behind: Mapping[str, datetime]
) -> dict[str, datetime]:
    """Open gates that could not fire and can; the jobs that had died there, which are due now."""
    rows = {row.id: row for each in opened for row in tables.gates.over(each)}
    own = (tables.gates.rows[gate] for job in behind if (gate := tables.jobs[job].gate))
    rows |= {row.id: row for row in own}
    died: dict[str, datetime] = {}
    for gate_id, row in sorted(rows.items()):
        if row.state is GateState.UNSATISFIABLE and _reopens(tables, now, row):
            held = [tables.jobs[each] for each in tables.gates.held.get(gate_id, ())]
            died |= {job.id: now for job in held if died_there(job)}
    return died


def _reopens(tables: Tables, now: datetime, row: MemoryGate) -> bool:
    row.recount(tables.jobs)
    if row.judged() is GateState.UNSATISFIABLE:
        return False
    # as much time as it had at first, when its jobs were made
    made = min(tables.jobs[each].enqueued_at for each in tables.gates.held[row.id])
    deadline = None if row.deadline is None else now + (row.deadline - made)
    tables.gates.reopen(row, deadline)
    return True


def _wait_again(tables: Tables, now: datetime, job: JobRecord, run_at: datetime) -> None:
    terms = tables.terms(job.id)
    # A delay of 0 would make it due at its release, before the time that was asked for.
    if run_at > now and terms.gated_delay == 0:
        tables.agree(job.id, replace(terms, gated_delay=None))
    tables.file(waiting_again(job, run_at), now)
    # It is dead no longer, so its fault must not count it.
    tables.fault_keys.pop(job.id, None)
    tables.redriven[job.id] = now
