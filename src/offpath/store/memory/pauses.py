"""Queues: how full they are, and which hand out nothing."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from offpath.model.job import LIVE, JobState
from offpath.model.limit import QueueRecord

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables


def paused(tables: Tables, now: datetime, name: str) -> bool:
    """True if a queue hands out nothing now."""
    if name not in tables.pauses:
        return False
    until = tables.pauses[name]
    return until is None or now < until


def resume(tables: Tables, now: datetime, name: str) -> bool:
    """Let a queue hand out its jobs again; False: it was not paused."""
    # Asked before the row goes: a pause whose time is over counts as none, though its row is here
    # still.
    was = paused(tables, now, name)
    tables.pauses.pop(name, None)
    return was


def records(tables: Tables, now: datetime) -> list[QueueRecord]:
    """Queues with unended jobs or a pause, by name."""
    counts: dict[str, dict[JobState, int]] = {}
    for (state, queue, _), number in tables.tally.items():
        if state in LIVE:
            of_queue = counts.setdefault(queue, {})
            of_queue[state] = of_queue.get(state, 0) + number
    ready: dict[str, int] = {}
    for lane in tables.lanes:
        ready[lane.queue] = ready.get(lane.queue, 0) + len(lane.ready)
    held = _held(tables)
    names = counts.keys() | {each for each in tables.pauses if paused(tables, now, each)}
    return [
        _record(tables, now, name, counts.get(name, {}), (ready.get(name, 0), held.get(name, 0)))
        for name in sorted(names)
    ]


def _held(tables: Tables) -> dict[str, int]:
    """Jobs that wait to be admitted, by queue."""
    held: dict[str, int] = {}
    for key in tables.limits.waiting:
        for queue, heap in tables.limits.rows[key].held.items():
            held[queue] = held.get(queue, 0) + len(heap)
    return held


def _record(
    tables: Tables,
    now: datetime,
    name: str,
    counts: dict[JobState, int],
    ready_and_held: tuple[int, int],
) -> QueueRecord:
    ready, held = ready_and_held
    stopped = paused(tables, now, name)
    until = tables.pauses.get(name)
    return QueueRecord(
        name=name,
        blocked=counts.get(JobState.BLOCKED, 0),
        held=held,
        scheduled=counts.get(JobState.QUEUED, 0) - ready,
        ready=ready,
        running=counts.get(JobState.RUNNING, 0),
        paused=stopped and until is None,
        paused_until=until if stopped else None,
    )
