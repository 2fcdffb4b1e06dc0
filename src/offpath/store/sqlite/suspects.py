"""Suspects: handed out apart from other jobs, begun when their worker runs nothing else."""

from __future__ import annotations

from collections import defaultdict

from offpath.model import suspicion
from offpath.model.lease import Leased, LeaseRequest
from offpath.model.suspicion import MOST_READ, Suspect
from offpath.store.programs.instants import instant
from offpath.store.programs.leased import ANNOUNCE, JOB, LEASED, WIDTH
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session


def nothing_apart(session: Session, now: int, request: LeaseRequest) -> Leased | None:
    """The answer where a look is enough, without the write lock; otherwise None."""
    ready = _ready(session, now, request)
    if ready and request.limit > 0:
        return None
    return Leased(jobs=(), now=instant(now), more=bool(ready))


def lease_apart(session: Session, now: int, request: LeaseRequest) -> Leased:
    """Hand out a set of suspects, not begun yet."""
    ready = _ready(session, now, request)
    if not ready:
        return Leased(jobs=(), now=instant(now))
    crash = next(iter(ready))
    [[left]] = session.run(SQL["suspects_left"](crash=crash))
    place = {each.id: seq for each, seq in ready[crash]}
    suspects = (each for each, _ in ready[crash])
    ids = suspicion.chosen(suspects, request, suspicion.most_together(crash, left))
    chosen = batch([place[each] for each in ids])
    rows = session.run(SQL["take_chosen"](jobs=chosen, worker=request.worker, now=now))
    rows.sort(key=lambda row: ids.index(row[JOB]))
    taken = batch([row[JOB] for row in rows])
    session.run(SQL["reserve"](ids=taken, worker=request.worker, alone=int(len(rows) == 1)))
    if any(row[ANNOUNCE] for row in rows):
        session.stirred = True
    return Leased(jobs=tuple(LEASED.one(row[:WIDTH]) for row in rows), now=instant(now), more=True)


def paused_queues(session: Session, now: int) -> dict[str, int | None]:
    """The queues that hand out nothing now, and until when (None: until they are resumed)."""
    rows = session.run(SQL["paused_queues"](now=now))
    return {name: until for name, until in rows}  # noqa: C416 - typed rows


def _ready(
    session: Session, now: int, request: LeaseRequest
) -> dict[str, list[tuple[Suspect, int]]]:
    """The suspects that may be had, with their ``seq``, best first, by their crash."""
    rows = session.run(SQL["suspects"](now=now, limit=MOST_READ))
    if not rows or not session.run(SQL["alive"](worker=request.worker, now=now)):
        return {}
    if session.run(SQL["suspects_held"](worker=request.worker)):
        return {}
    paused = paused_queues(session, now)
    ready: dict[str, list[tuple[Suspect, int]]] = defaultdict(list)
    for *place, crash, seq in rows:
        suspect = Suspect(*place)
        if suspicion.ready_for(request, paused, suspect):
            ready[crash].append((suspect, seq))
    return ready
