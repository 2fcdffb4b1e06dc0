"""Gates: who waits for whom, and what an end of the watched makes of those who wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from offpath.model.changes import ChangedJob
from offpath.model.gate import GateRecord, GateState, NewGate
from offpath.model.job import DeadReason, JobRecord, JobState
from offpath.store.memory.gate_rows import MemoryGate
from offpath.store.refusals import nothing_to_watch
from offpath.store.rows.jobs import changed, given_up, released

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables


# -- what new ones ask for -----------------------------------------------------------------------


def watched(
    tables: Tables, gate: NewGate, new: Mapping[str, str], planned: Iterable[str]
) -> tuple[str, ...]:
    """The jobs that a new gate watches: of one that attached, its holder. Raises GateError."""
    known = set(planned)
    on = tuple(dict.fromkeys(new.get(each, each) for each in gate.on))
    missing = [each for each in on if each not in known and each not in tables.jobs]
    # With a timeout it ends in any case, so it may wait for jobs that are yet to come.
    if missing and gate.timeout is None and gate.id not in tables.gates.rows:
        raise nothing_to_watch(gate.id, missing[0])
    return on


# -- what follows from an end --------------------------------------------------------------------


def follow(tables: Tables, now: datetime, expires_at: datetime | None) -> list[ChangedJob]:
    """Release or end the jobs of gates that were decided, and so on along the chain; what moved."""
    gates, moved = tables.gates, []
    while gates.decided:
        row = gates.decided.pop(0)
        waiting = [tables.jobs[each] for each in gates.held.get(row.id, ())]
        for job in waiting:
            # A gate keeps jobs that have passed it or were cancelled, and these stay as they are.
            if job.state is JobState.BLOCKED and job.gate == row.id:
                after = _decided(tables, job, row, now, expires_at)
                moved.append(changed(job, after, group_done=tables.file(after, now)))
    return moved


def _decided(
    tables: Tables, job: JobRecord, row: MemoryGate, now: datetime, expires_at: datetime | None
) -> JobRecord:
    if row.state is GateState.FIRED:
        return released(job, tables.terms(job.id), now)
    reason = _REASONS[row.state]
    return given_up(job, reason, now, expires_at)


_REASONS = {
    GateState.UNSATISFIABLE: DeadReason.UNSATISFIABLE,
    GateState.TIMED_OUT: DeadReason.GATE_TIMEOUT,
}


def died(moved: Iterable[ChangedJob]) -> list[ChangedJob]:
    """The jobs that were not released."""
    return [each for each in moved if each.state.terminal]


def of_group(group_id: str, along: Sequence[ChangedJob]) -> tuple[bool, list[ChangedJob]]:
    """True if one of these ended this group; and all of them without that mark."""
    done = any(each.group_done and each.group_id == group_id for each in along)
    others = [
        replace(each, group_done=each.group_done and each.group_id != group_id) for each in along
    ]
    return done, others


def time_out(tables: Tables, gate_id: str) -> None:
    """A gate's time is over."""
    row = tables.gates.rows[gate_id]
    if row.state is GateState.OPEN:
        tables.gates.end(row, GateState.TIMED_OUT)


def records(tables: Tables, ids: Sequence[str]) -> list[GateRecord]:
    """The gates of these ids that exist."""
    rows = (tables.gates.rows.get(each) for each in dict.fromkeys(ids))
    return [
        GateRecord(
            id=row.id,
            state=row.state,
            on=row.on,
            need=row.need,
            of=row.of,
            succeeded=row.succeeded,
            failed=row.failed,
            deadline=row.deadline,
        )
        for row in rows
        if row is not None
    ]
