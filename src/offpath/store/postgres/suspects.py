"""Suspects: handed out apart from other jobs, begun when their worker runs nothing else."""

from __future__ import annotations

from datetime import datetime

from offpath.model import suspicion
from offpath.model.lease import LeaseRequest
from offpath.model.suspicion import MOST_READ, Suspect
from offpath.store.postgres.handouts import JOB
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Rows, Send, Steps, ask
from offpath.store.sql import Catalogue, Query


def apart_steps(
    request: LeaseRequest, promote: Query, now: datetime | None, *, sql: Catalogue
) -> Steps[tuple[Rows, bool]]:
    """Reserve a set of suspects: the rows of a lease, and whether there are any to be had."""
    look = sql["suspects"](
        now=moment(now),
        worker=request.worker,
        tasks=to_json(request.tasks),
        queues=to_json(request.queues),
        rooms=to_json(request.queue_rooms),
        declined=to_json(request.declined),
        limit=MOST_READ,
    )
    _, rows = yield Send((promote, look), severable=True)
    ids = _chosen(rows, request)
    take = sql["take_chosen"](
        now=moment(now),
        ids=to_json(ids),
        worker=request.worker,
        tasks=to_json(request.tasks),
        queues=to_json(request.queues),
        begun=False,
    )
    (taken,) = yield Send((take,), last=not ids)
    if ids:
        mine = [row[JOB] for row in taken if row[JOB] is not None]
        alone = len(mine) == 1
        yield from ask(
            sql["reserve"](ids=to_json(mine), worker=request.worker, alone=alone), last=True
        )
    place = {job: n for n, job in enumerate(ids)}
    return sorted(taken, key=lambda row: place.get(row[JOB], 0)), bool(rows)


def _chosen(rows: Rows, request: LeaseRequest) -> list[str]:
    if not rows:
        return []
    *_, crash, left = rows[0]
    suspects = (Suspect(*suspect) for *suspect, _, _ in rows)
    return suspicion.chosen(suspects, request, suspicion.most_together(crash, left))
