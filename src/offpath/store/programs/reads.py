"""Looking at jobs without changing anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from offpath.model.headers import readable_headers
from offpath.model.job import Count, Failure, JobFilter, JobRecord, JobState, Page
from offpath.store.programs.answers import STATES, BacklogRow, JobRow
from offpath.store.programs.dialect import Dialect, Steps, one
from offpath.store.programs.instants import instant, readable
from offpath.store.protocol import MOST_ON_A_PAGE, Backlog
from offpath.store.refusals import no_position
from offpath.store.sql import Query
from offpath.store.unreadable import Shape, mark

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_failures: Final = msgspec.json.Decoder(tuple[Failure, ...]).decode


def get(d: Dialect, ids: Sequence[str]) -> Steps[list[JobRecord]]:
    """Jobs by id, with their failures."""
    return _RECORDS.all((yield from one(d.sql["get"](ids=d.ids(ids)))))


def states(d: Dialect, ids: Sequence[str]) -> Steps[dict[str, JobState]]:
    """States by id."""
    rows = yield from one(d.sql["states"](ids=d.ids(ids)))
    # A state that somebody wrote by hand has no name here; ``doctor`` tells about it.
    return {job: STATES[state] for job, state in rows if state in STATES}


def find(
    d: Dialect, where: JobFilter, *, limit: int = 100, after: str | None = None, newest: bool = True
) -> Steps[Page]:
    """One page of jobs that match. One more than asked for tells whether there is a next one."""
    if limit <= 0:
        return Page(items=())
    size = min(limit, MOST_ON_A_PAGE)
    position = None if after is None else d.id(after)
    if after is not None and position is None:
        raise no_position()
    rows = yield from one(_find(d, where, size + 1, position, newest=newest))
    items = tuple(_RECORDS.all(rows[:size]))
    return Page(items=items, next=items[-1].id if len(rows) > size else None)


def _find(d: Dialect, where: JobFilter, limit: int, after: str | None, *, newest: bool) -> Query:
    values = {**conditions(d, where), "limit": limit, "after": after}
    only_dead = where.states == (JobState.DEAD,)
    few = bool(where.ids) or where.group_id is not None
    # SQLite plans a statement before it has the values: for few jobs it has a statement of its own
    if (few or only_dead) and "find_some" in d.sql:
        return d.sql["find_some"](**values, newest=newest, dead=only_dead and not few)
    return d.sql["find_newest" if newest else "find_oldest"](**values)


def count(d: Dialect, where: JobFilter) -> Steps[list[Count]]:
    """The number of jobs that match, by state, queue and task."""
    numbers: Counter[tuple[JobState, str, str]] = Counter()
    for state, queue, task, number in (yield from one(d.sql["count"](**conditions(d, where)))):
        if state in STATES:  # one of no known state is listed, and doctor tells of it
            numbers[STATES[state], queue, task] += number
    return [
        Count(state=state, queue=queue, task=task, count=number)
        for (state, queue, task), number in sorted(numbers.items())
    ]


def backlog(d: Dialect, *, limit: int = 1000) -> Steps[list[Backlog]]:
    """Due work by queue and task."""
    rows = yield from one(d.sql["backlog"](now=d.now, limit=limit))
    return [
        Backlog(queue=row.queue, task=row.task, ready=row.ready, oldest_run_at=readable(row.oldest))
        for row in sorted(BacklogRow(*row) for row in rows)
    ]


def conditions(d: Dialect, where: JobFilter) -> dict[str, Any]:
    """The filter as parameters; None stands for any."""
    return {
        "ids": d.ids(where.ids) if where.ids else None,
        "states": d.any_of(_kept(where.states)),
        "tasks": d.any_of(where.tasks),
        "queues": d.any_of(where.queues),
        "reasons": d.any_of(where.reasons),
        "error_types": d.any_of(where.error_types),
        "faults": d.any_of(where.faults),
        "tags": d.batch(where.tags) if where.tags else None,
        "group_id": where.group_id,
        # The root's own row may name no group, so it is found by its id.
        "root": None if where.group_id is None else d.id(where.group_id),
        "parent": where.parent,
        "enqueued_after": d.at(where.enqueued_after),
        "enqueued_before": d.at(where.enqueued_before),
        "finished_after": d.at(where.finished_after),
        "finished_before": d.at(where.finished_before),
        "redrives_below": where.redrives_below,
    }


def _kept(wanted: Iterable[JobState]) -> list[str]:
    states = set(wanted)
    # Queued jobs are kept as ready and as scheduled: the filter takes both.
    return [kept for kept, state in STATES.items() if state in states]


def _record(row: JobRow) -> JobRecord:
    return JobRecord(
        id=row.id,
        task=row.task,
        queue=row.queue,
        state=STATES[row.state],
        priority=row.priority,
        run_at=instant(row.run_at),
        enqueued_at=instant(row.enqueued_at),
        attempt=row.attempt,
        deliveries=row.deliveries,
        losses=row.losses,
        redrives=row.redrives,
        group_id=row.group_id,
        input=row.input,
        options=row.options,
        fingerprint=row.fingerprint,
        parent=row.parent,
        dependents=_texts(row.dependents) if row.dependents else (),
        deadline=instant(row.deadline),
        unique_key=row.unique_key,
        tags=_texts(row.tags) if row.tags else (),
        worker=row.worker,
        cancel_requested=bool(row.cancel_requested),
        started_at=instant(row.started_at),
        finished_at=instant(row.finished_at),
        expires_at=instant(row.expires_at),
        result=row.result,
        reason=row.reason,
        progress=row.progress,
        failures=_failures(row.failures) if row.failures else (),
        gate=row.gate,
        limit_key=row.limit_key,
        fair_key=row.fair_key,
        wait_target=row.wait_target,
        wait_event=row.wait_event,
        headers=None if row.headers is None else readable_headers(row.headers),
    )


_PLAIN: Final = JobRow(
    id="",
    task="",
    queue="",
    state="dead",
    priority=0,
    run_at=0,
    enqueued_at=0,
    attempt=1,
    deliveries=0,
    losses=0,
    redrives=0,
    group_id="",
    input="{}",
    options="{}",
    fingerprint="",
    parent=None,
    dependents=None,
    deadline=None,
    unique_key=None,
    tags=None,
    worker=None,
    cancel_requested=0,
    started_at=None,
    finished_at=None,
    expires_at=None,
    result=None,
    reason=None,
    progress=None,
    failures=None,
    gate=None,
    limit_key=None,
    fair_key=None,
    wait_target=None,
    wait_event=None,
    headers=None,
)
_RECORDS: Final = Shape.of(_PLAIN, _record, lambda job, bad: replace(job, unreadable=mark(bad)))
