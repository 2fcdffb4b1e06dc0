"""Reads, on their own connections: however long one takes, it holds up no write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from offpath.model.job import Count, JobFilter, JobRecord, JobState, Page
from offpath.store.programs.instants import micros, readable
from offpath.store.protocol import Backlog
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.rows import JOBS, OUTER
from offpath.store.sqlite.session import SQL, Session


def get(session: Session, ids: Sequence[str]) -> list[JobRecord]:
    """The jobs of these ids that exist."""
    return JOBS.all(session.run(SQL["get"](ids=batch(list(ids)))))


def states(session: Session, ids: Sequence[str]) -> dict[str, JobState]:
    """The states of those that exist."""
    rows = session.run(SQL["states"](ids=batch(list(ids))))
    return {job: OUTER[state] for job, state in rows if state in OUTER}


def find(session: Session, where: JobFilter, limit: int, after: str | None, newest: bool) -> Page:
    """One page of the jobs that match, by id."""
    if limit <= 0:
        return Page(items=())
    ids = _find_ids(session, where, limit + 1, after, newest)
    records = {job.id: job for job in get(session, ids[:limit])}
    # A job may have been removed between the two reads: it is then left out.
    items = tuple(_with_last_failure(records[job]) for job in ids[:limit] if job in records)
    return Page(items=items, next=ids[limit - 1] if len(ids) > limit else None)


def _find_ids(
    session: Session, where: JobFilter, limit: int, after: str | None, newest: bool
) -> list[str]:
    conditions = _conditions(where) | {"limit": limit, "after": after}
    only_dead = where.states == (JobState.DEAD,)
    if where.ids or where.group_id is not None or only_dead:
        dead = only_dead and not where.ids and where.group_id is None
        query = SQL["find_some"](**conditions, newest=newest, dead=dead)
    else:
        del conditions["ids"], conditions["group_id"]
        query = SQL["find_newest" if newest else "find_oldest"](**conditions)
    return [row[0] for row in session.run(query)]


def _with_last_failure(job: JobRecord) -> JobRecord:
    return replace(job, failures=job.failures[-1:]) if len(job.failures) > 1 else job


def _conditions(where: JobFilter) -> dict[str, Any]:
    """The filter as parameters: None does not restrict."""
    return {
        "ids": _any_of(where.ids),
        "states": _any_of(_inner(where.states)),
        "tasks": _any_of(where.tasks),
        "queues": _any_of(where.queues),
        "tags": _any_of(where.tags),
        "reasons": _any_of(where.reasons),
        "error_types": _any_of(where.error_types),
        "group_id": where.group_id,
        "parent": where.parent,
        "enqueued_after": _at(where.enqueued_after),
        "enqueued_before": _at(where.enqueued_before),
        "finished_after": _at(where.finished_after),
        "finished_before": _at(where.finished_before),
        "redrives_below": where.redrives_below,
    }


def _any_of(values: tuple[str, ...]) -> str | None:
    return batch(values) if values else None


def _inner(wanted: Iterable[JobState]) -> tuple[str, ...]:
    states = set(wanted)
    return tuple(inner for inner, outer in OUTER.items() if outer in states)


def _at(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def count(session: Session, where: JobFilter) -> list[Count]:
    """How many jobs match, by state, queue and task."""
    numbers: Counter[tuple[JobState, str, str]] = Counter()
    for state, queue, task, number in session.run(SQL["count"](**_conditions(where))):
        if state in OUTER:  # one of no known state is listed, and doctor tells of it
            numbers[OUTER[state], queue, task] += number
    return [
        Count(state=state, queue=queue, task=task, count=number)
        for (state, queue, task), number in sorted(numbers.items())
    ]


def backlog(session: Session, now: int, limit: int) -> list[Backlog]:
    """Due work by queue and task."""
    ready = {(row[0], row[1]) for row in session.run(SQL["ready_lanes"]())}
    scheduled = session.run(SQL["scheduled_lanes"]())
    due = {(row[0], row[1]) for row in scheduled if row[2] <= now}
    found = (_lane(session, now, limit, *lane) for lane in sorted(ready | due))
    return [lane for lane in found if lane is not None]


def _lane(session: Session, now: int, limit: int, queue: str, task: str) -> Backlog | None:
    query = SQL["backlog_lane"](queue=queue, task=task, now=now, limit=limit)
    [[ready, scheduled, *firsts]] = session.run(query)
    first = min((at for at in firsts if at is not None), default=None)
    number = min(ready + scheduled, limit)
    if first is None or number <= 0:
        return None
    return Backlog(queue=queue, task=task, ready=number, oldest_run_at=readable(first))
