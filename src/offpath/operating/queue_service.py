"""Serving: which live workers take jobs of a queue, and which tasks nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from offpath.health.fleet import (
    MOST_COUNTED,
    MOST_DUE,
    FleetMember,
    WorkerPresence,
    serves,
    untaken,
)
from offpath.model.limit import QueueRecord
from offpath.operating.documents.fields import filled
from offpath.operating.documents.flow import QueueDocument, queue_state
from offpath.store.protocol import Backlog

SHOWN = 50
"""Workers that are named; a fleet may have thousands."""


class DueDocument(Struct, frozen=True, kw_only=True):
    """Due jobs of one task in a queue."""

    task: str
    ready: int
    oldest_run_at: datetime
    known: bool
    """True if a live worker of the queue knows the task."""


class QueueStanding(QueueDocument, frozen=True, kw_only=True):
    """A queue with what is due in it, and who serves it."""

    oldest_due_at: datetime | None
    due: tuple[DueDocument, ...]
    served_by: int
    """Live workers that serve it."""
    late: int
    """Workers that serve it and are late with their heartbeat."""
    workers: tuple[str, ...]
    """The ids of some of them."""
    problems: tuple[str, ...]
    """The reason why nobody takes its jobs, one line each."""


class QueueList(Struct, frozen=True, kw_only=True):
    """The queues that have unended jobs or are paused."""

    items: tuple[QueueStanding, ...]
    counted_to: int = MOST_COUNTED
    """The number at which each count stops: so many, or more."""
    due_counted_to: int = MOST_DUE
    """The same of due jobs of one task in a queue."""


def describe_queues(
    queues: Iterable[QueueRecord], backlog: Sequence[Backlog], members: Iterable[FleetMember]
) -> QueueList:
    """The documents of queues. Those that hinder come first, then by name."""
    known = list(members)
    live = [one for one in known if one.presence is WorkerPresence.LIVE]
    late = [one for one in known if one.presence is WorkerPresence.LATE]
    told = [_standing(one, [due for due in backlog if due.queue == one.name], live, late)
            for one in queues]  # fmt: skip
    return QueueList(items=tuple(sorted(told, key=lambda one: (not one.problems, one.name))))


def _standing(
    queue: QueueRecord,
    backlog: Sequence[Backlog],
    live: Sequence[FleetMember],
    late: Iterable[FleetMember],
) -> QueueStanding:
    serving = [one for one in live if serves(one, queue.name)]
    known = {task for one in serving for task in one.record.info.tasks}
    due = tuple(_due(one, known) for one in backlog)
    return filled(
        QueueStanding,
        queue,
        state=queue_state(queue),
        oldest_due_at=min((one.oldest_run_at for one in due), default=None),
        due=due,
        served_by=len(serving),
        late=sum(serves(one, queue.name) for one in late),
        workers=tuple(one.record.info.id for one in serving[:SHOWN]),
        problems=tuple(untaken(queue, backlog, live)),
    )


def _due(one: Backlog, known: set[str]) -> DueDocument:
    return filled(DueDocument, one, known=one.task in known)
