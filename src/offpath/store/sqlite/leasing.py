"""The lease: which lanes have what, and the best of them in one statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from offpath.model.job import LeasedJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.store.sql import Row
from offpath.store.sqlite.instants import instant
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.rows import leased_jobs
from offpath.store.sqlite.session import SQL, Session

PROMOTED_AT_ONCE: Final = 1_000

Lane = tuple[str, str]
"""A queue and a task."""


def nothing_to_lease(session: Session, now: int, request: LeaseRequest) -> Leased | None:
    """The answer when there is nothing to hand out, without the write lock; else None.

    An idle worker's polls then never wait for another's write, nor make one wait.
    """
    if not _may_lease(session, now, request):
        return Leased(jobs=(), now=instant(now))
    if _lanes(session, "ready_lanes", request):
        return None
    due = [lane[2] for lane in _lanes(session, "scheduled_lanes", request)]
    if any(at <= now for at in due):
        return None
    return Leased(jobs=(), now=instant(now), due_in=_seconds_until(due, now))


def lease(session: Session, now: int, request: LeaseRequest) -> Leased:
    """Hand out the best ready jobs of the lanes that were asked for."""
    if not _may_lease(session, now, request):
        return Leased(jobs=(), now=instant(now))
    scheduled = _lanes(session, "scheduled_lanes", request)
    held_back = _promote(session, now, scheduled)
    if held_back or any(lane[2] <= now for lane in scheduled):
        scheduled = _lanes(session, "scheduled_lanes", request)
    ready = _lanes(session, "ready_lanes", request)
    jobs = _take(session, now, request, ready)
    return Leased(
        jobs=jobs,
        now=instant(now),
        more=held_back or (len(jobs) >= request.limit > 0),
        due_in=_seconds_until([lane[2] for lane in scheduled], now),
    )


def _may_lease(session: Session, now: int, request: LeaseRequest) -> bool:
    return bool(session.run(SQL["worker_alive"](id=request.worker, now=now)))


def _lanes(session: Session, statement: str, request: LeaseRequest) -> list[Row]:
    """The lanes of the tasks and queues that were asked for."""
    return [
        lane
        for lane in session.run(SQL[statement]())
        if request.tasks.get(lane[1], 0) > 0 and (not request.queues or lane[0] in request.queues)
    ]


def _promote(session: Session, now: int, scheduled: Iterable[Row]) -> bool:
    """Make due scheduled jobs ready; True when some may have been left for the next time."""
    due = [lane[:2] for lane in scheduled if lane[2] <= now]
    if not due:
        return False
    query = SQL["promote"](lanes=batch(due), now=now, limit=PROMOTED_AT_ONCE)
    return len(session.run(query)) >= PROMOTED_AT_ONCE


def _take(
    session: Session, now: int, request: LeaseRequest, lanes: list[Row]
) -> tuple[LeasedJob, ...]:
    shared = {"worker": request.worker, "now": now}
    if request.limit <= 0 or not lanes:
        return ()
    if len(lanes) == 1:
        queue, task = lanes[0]
        limit = min(request.limit, request.tasks[task])
        query = SQL["lease_lane"](queue=queue, task=task, limit=limit, **shared)
    else:
        rooms = batch([(queue, task, request.tasks[task]) for queue, task in lanes])
        query = SQL["lease_lanes"](lanes=rooms, limit=request.limit, **shared)
    rows = session.run(query)
    if any(row[16] for row in rows):
        session.stirred = True
    return leased_jobs(rows)


def _seconds_until(due: Iterable[int], now: int) -> float | None:
    first = min(due, default=None)
    return None if first is None else max(first - now, 0) / 1_000_000
