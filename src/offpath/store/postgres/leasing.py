"""Handing out work."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from offpath.model.job import LeasedJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.store.postgres.steps import Announced, Send, Steps, ask, from_micros, moment, to_json
from offpath.store.sql import Catalogue, Row

PROMOTED_AT_ONCE: Final = 500
_MOST: Final = 8


_dependents = msgspec.json.Decoder(tuple[str, ...])


class Reach:
    """How many candidates a lease reads for each job it wants.

    One is enough while nobody else takes the same jobs. A lease that came out short doubles it, a
    full one halves it, so that a lone worker does not pay for a crowd.
    """

    def __init__(self) -> None:
        self._factor = 1

    def of(self, limit: int) -> int:
        """Candidates for ``limit`` jobs; one more tells whether there are more."""
        return limit * self._factor + 1

    def learn(self, *, short: bool) -> None:
        """Take in how the last lease went."""
        self._factor = min(self._factor * 2, _MOST) if short else max(self._factor // 2, 1)


def lease_steps(
    request: LeaseRequest,
    now: datetime | None,
    reach: Reach,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[Leased]:
    """Make due jobs ready, then hand out the best."""
    limit = max(request.limit, 0)
    wide = reach.of(limit)
    rows = yield Send(
        (
            sql["promote"](now=moment(now), limit=PROMOTED_AT_ONCE),
            sql["lease"](
                now=moment(now),
                worker=request.worker,
                limit=limit,
                reach=wide,
                tasks=to_json({task: min(room, limit) for task, room in request.tasks.items()}),
                queues=to_json(request.queues),
            ),
        ),
        last=True,
        severable=True,  # jobs that are due are ready, whoever takes them
    )
    now_micros, candidates, due_at = rows[1][0][:3]
    jobs = tuple(_job(row, request.worker) for row in rows[1] if row[3] is not None)
    if announced is not None:
        announced.hear(row[18] for row in rows[1])
    reach.learn(short=len(jobs) < min(limit, candidates))
    return Leased(
        jobs=jobs,
        now=from_micros(now_micros),
        more=candidates > len(jobs),
        due_in=None if due_at is None else (due_at - now_micros) / 1_000_000,
    )


def held_steps(worker: str, *, sql: Catalogue) -> Steps[list[LeasedJob]]:
    """What a worker holds."""
    rows = yield from ask(sql["held"](worker=worker), last=True)
    return [_job(row, worker) for row in rows]


def _job(row: Row, worker: str) -> LeasedJob:
    return LeasedJob(
        id=row[3],
        task=row[4],
        queue=row[5],
        input=row[6],
        worker=worker,
        deliveries=row[7],
        attempt=row[8],
        options=row[9],
        group_id=row[10] or row[3],
        priority=row[11],
        run_at=from_micros(row[12]),
        enqueued_at=from_micros(row[13]),
        losses=row[14],
        parent=row[15],
        dependents=() if row[16] is None else _dependents.decode(row[16]),
        deadline=None if row[17] is None else from_micros(row[17]),
    )
