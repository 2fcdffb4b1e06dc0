"""Handing out work."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.model.job import LeasedJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.store.postgres.apart import apart_steps
from offpath.store.postgres.ordering import plain, take_steps
from offpath.store.postgres.steps import NEVER, from_micros, moment, to_json
from offpath.store.programs.dialect import Announced, Rows, Send, Steps, ask
from offpath.store.sql import Catalogue, Row
from offpath.store.unreadable import Shape, mark

PROMOTED_AT_ONCE: Final = 500
_MOST: Final = 8


_dependents = msgspec.json.Decoder(tuple[str, ...])
_COLUMNS: Final = (
    "now",
    "candidates",
    "due_at",
    "id",
    "task",
    "queue",
    "input",
    "deliveries",
    "attempt",
    "options",
    "group_id",
    "priority",
    "run_at",
    "enqueued_at",
    "losses",
    "parent",
    "dependents",
    "deadline",
    "announce",
    "limit_key",
)
_PLAIN: Final = (
    0,
    0,
    None,
    "",
    "",
    "",
    "{}",
    1,
    1,
    "{}",
    None,
    0,
    0,
    0,
    0,
    None,
    None,
    None,
    0,
    None,
)


class Reach:
    """The number of candidates that a lease reads for each job it wants.

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
    promote = sql["promote"](now=moment(now), limit=PROMOTED_AT_ONCE)
    if request.apart:
        reserved, more = yield from apart_steps(request, promote, now, sql=sql)
        return replace(_leased(request, reserved, announced, more=more), due_in=None)
    if not plain(request):
        taken, choice = yield from take_steps(request, limit, promote, now, sql=sql)
        return _leased(request, taken, announced, more=choice.more)
    wide = reach.of(limit)
    rows = yield Send(
        (
            promote,
            sql["lease"](
                now=moment(now),
                worker=request.worker,
                limit=limit,
                reach=wide,
                tasks=to_json({task: min(room, limit) for task, room in request.tasks.items()}),
                queues=to_json(request.queues),
                served=to_json(request.served),
            ),
        ),
        last=True,
        severable=True,  # jobs that are due are ready, whoever takes them
    )
    candidates = rows[1][0][1]
    leased = _leased(request, rows[1], announced)
    reach.learn(short=len(leased.jobs) < min(limit, candidates))
    return replace(leased, more=candidates > len(leased.jobs))


def _leased(
    request: LeaseRequest, rows: Rows, announced: Announced | None, *, more: bool = False
) -> Leased:
    """The answer, from the rows of a statement that leased."""
    now, _, due_at = rows[0][:3]
    if announced is not None:
        announced.hear(row[18] for row in rows)
    return Leased(
        jobs=tuple(_shape(request.worker).all(row for row in rows if row[3] is not None)),
        now=from_micros(now),
        more=more,
        due_in=None if due_at is None or due_at == NEVER else (due_at - now) / 1_000_000,
    )


def held_steps(worker: str, *, sql: Catalogue) -> Steps[list[LeasedJob]]:
    """The jobs that a worker holds."""
    rows = yield from ask(sql["held"](worker=worker), last=True)
    return _shape(worker).all(rows)


def _shape(worker: str) -> Shape[LeasedJob]:
    """The way in which the rows of a lease by ``worker`` are read, one by one if need be."""
    return Shape(lambda row: job_of(row, worker), _COLUMNS, _PLAIN, _marked)


def _marked(job: LeasedJob, bad: dict[str, str]) -> LeasedJob:
    return replace(job, unreadable=mark(bad))


def job_of(row: Row, worker: str) -> LeasedJob:
    """A job as the statements of a lease answer it."""
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
        limit_key=row[19],
    )
