"""Queues: how full they are, and which hand out nothing."""

from __future__ import annotations

from datetime import datetime

from offpath.model.limit import QueueRecord
from offpath.store.hints import Hint
from offpath.store.programs.answers import QueueRow
from offpath.store.programs.dialect import Dialect, Steps, one
from offpath.store.programs.instants import readable


def pause(d: Dialect, name: str, *, until: datetime | None = None) -> Steps[None]:
    """Hand out nothing of a queue."""
    yield from one(d.sql["pause_queue"](queue=name, until=d.at(until)))


def resume(d: Dialect, name: str) -> Steps[bool]:
    """Hand out its jobs again; False: it was not paused."""
    rows = yield from one(d.sql["resume_queue"](queue=name, now=d.now))
    was_paused = any(paused for (paused,) in rows)
    if was_paused:
        d.announced.tell(Hint.WORK)
    return was_paused


def queues(d: Dialect) -> Steps[list[QueueRecord]]:
    """Queues with unended jobs or a pause, by name."""
    rows = yield from one(d.sql["queues"](now=d.now))
    return [_record(QueueRow(*row)) for row in rows]


def _record(row: QueueRow) -> QueueRecord:
    return QueueRecord(
        name=row.name,
        blocked=row.blocked,
        held=row.held,
        scheduled=row.scheduled,
        ready=row.ready,
        running=row.running,
        paused=bool(row.paused),
        paused_until=readable(row.paused_until),
    )
