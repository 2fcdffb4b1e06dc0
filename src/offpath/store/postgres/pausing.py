"""Queues: how full they are, and which hand out nothing."""

from __future__ import annotations

from datetime import datetime

from offpath.model.limit import QueueRecord
from offpath.store.postgres.steps import moment
from offpath.store.programs.dialect import Steps, ask
from offpath.store.sql import Catalogue
from offpath.store.unreadable import Documents

_record = Documents(QueueRecord)


def pause_steps(name: str, until: datetime | None, *, sql: Catalogue) -> Steps[None]:
    """Hand out nothing of a queue."""
    yield from ask(sql["pause_queue"](queue=name, until=moment(until)), last=True)


def resume_steps(name: str, now: datetime | None, *, sql: Catalogue) -> Steps[bool]:
    """Hand out its jobs again."""
    rows = yield from ask(sql["resume_queue"](queue=name, now=moment(now)), last=True)
    return any(row[0] for row in rows)


def queues_steps(now: datetime | None, *, sql: Catalogue) -> Steps[list[QueueRecord]]:
    """Queues with unended jobs or a pause."""
    rows = yield from ask(sql["queues"](now=moment(now)), last=True)
    return _record.all(rows)
