"""Looking without changing anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from offpath.errors import InvalidArgument
from offpath.model.job import Count, JobFilter, JobRecord, JobState, Page
from offpath.store.postgres.steps import (
    ids_json,
    is_state,
    job_id,
    moment,
    public,
    readable_time,
    to_json,
)
from offpath.store.programs.dialect import Steps, ask
from offpath.store.protocol import Backlog
from offpath.store.sql import Catalogue, Row
from offpath.store.unreadable import Documents

MOST_ON_A_PAGE: Final = 1000

_record = Documents(JobRecord)
_KNOWN: Final = frozenset(JobState)
_INNER: Final = {JobState.QUEUED: ("scheduled", "ready")}


def get_steps(ids: Sequence[str], *, sql: Catalogue) -> Steps[list[JobRecord]]:
    """Jobs by id."""
    rows = yield from ask(sql["get"](ids=ids_json(ids)), last=True)
    return _records(rows)


def states_steps(ids: Sequence[str], *, sql: Catalogue) -> Steps[dict[str, JobState]]:
    """States by id."""
    rows = yield from ask(sql["states"](ids=ids_json(ids)), last=True)
    return {job: public(state) for job, state in rows if is_state(state)}


def find_steps(
    where: JobFilter, limit: int, after: str | None, *, newest: bool, sql: Catalogue
) -> Steps[Page]:
    """One page. One more row than asked for tells whether there is a next one."""
    if limit <= 0:
        return Page(items=())
    size = min(limit, MOST_ON_A_PAGE)
    statement = sql["find_newest" if newest else "find_oldest"]
    query = statement(**_conditions(where), after=_cursor(after), limit=size + 1)
    records = _records((yield from ask(query, last=True)))
    items = tuple(records[:size])
    return Page(items=items, next=items[-1].id if len(records) > size else None)


def count_steps(where: JobFilter, *, sql: Catalogue) -> Steps[list[Count]]:
    """Counts by state, queue and task."""
    rows = yield from ask(sql["count"](**_conditions(where)), last=True)
    return [
        Count(state=JobState(state), queue=queue, task=task, count=count)
        for state, queue, task, count in sorted(map(tuple, rows))
        if state in _KNOWN  # one of no known state is listed, and doctor tells of it
    ]


def backlog_steps(limit: int, now: datetime | None, *, sql: Catalogue) -> Steps[list[Backlog]]:
    """Due work by queue and task."""
    rows = yield from ask(sql["backlog"](now=moment(now), limit=limit), last=True)
    return [
        Backlog(queue=queue, task=task, ready=ready, oldest_run_at=readable_time(oldest))
        for queue, task, ready, oldest in sorted(map(tuple, rows))
    ]


def _records(rows: Sequence[Row]) -> list[JobRecord]:
    return _record.all(rows)


def _cursor(after: str | None) -> str | None:
    if after is None:
        return None
    known = job_id(after)
    if known is None:
        message = "after= is not a position: give the `next` of the page before"
        raise InvalidArgument(message)
    return known


def _conditions(where: JobFilter) -> dict[str, Any]:
    """The filter as parameters; None stands for any."""
    return {
        "ids": ids_json(where.ids) if where.ids else None,
        "states": [inner for one in where.states for inner in _INNER.get(one, (one.value,))]
        or None,
        "tasks": list(where.tasks) or None,
        "queues": list(where.queues) or None,
        "reasons": list(where.reasons) or None,
        "error_types": list(where.error_types) or None,
        "tags": to_json(where.tags) if where.tags else None,
        "group_id": where.group_id,
        "root": job_id(where.group_id) if where.group_id else None,
        "parent": where.parent,
        "enqueued_after": moment(where.enqueued_after),
        "enqueued_before": moment(where.enqueued_before),
        "finished_after": moment(where.finished_after),
        "finished_before": moment(where.finished_before),
        "redrives_below": where.redrives_below,
    }
