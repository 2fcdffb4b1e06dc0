"""The records that jobs made on their way: results of steps, and how to undo them."""

from __future__ import annotations

from datetime import datetime
from heapq import nsmallest
from typing import TYPE_CHECKING

from offpath.model.job import LeasedJob
from offpath.model.wait import Undoing

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables


def put(tables: Tables, now: datetime, job: LeasedJob, name: str, result: str | None) -> str | None:
    """Record a result once; what is recorded."""
    tables.fenced(job)
    return tables.steps.record(job.id, name, result, now)


def put_undo(tables: Tables, job: LeasedJob, name: str, undo: str) -> None:
    """Record once what undoes a step."""
    tables.fenced(job)
    tables.steps.undo.setdefault(job.id, {}).setdefault(name, undo)


def undoing(tables: Tables, limit: int, after: str | None = None) -> list[Undoing]:
    """Jobs that have something to undo, by id, those after one if given."""
    waiting = (each for each in tables.steps.to_undo if after is None or each > after)
    return [
        Undoing(
            id=each,
            group_id=tables.jobs[each].group_id,
            undo=tuple(tables.steps.undo[each].values()),
        )
        for each in nsmallest(max(limit, 0), waiting)
    ]
