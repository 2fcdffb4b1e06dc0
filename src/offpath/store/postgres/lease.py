"""Handing out work."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from offpath.model.job import LeasedJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.store.postgres.handouts import ANNOUNCE, JOB, shape_of
from offpath.store.postgres.order import plain, take_steps
from offpath.store.postgres.steps import NEVER, from_micros, moment, to_json
from offpath.store.postgres.suspects import apart_steps
from offpath.store.programs.dialect import Announced, Rows, Send, Steps, ask
from offpath.store.sql import Catalogue

# Jobs that come due together are made ready over several leases: no lease pays for all.
PROMOTED_AT_ONCE: Final = 500
_MOST: Final = 8


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
    if request.suspects_only:
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
    _, candidates, *_ = rows[1][0]
    leased = _leased(request, rows[1], announced)
    # Fewer than there were candidates: others have taken them meanwhile. A lack of candidates is
    # not a crowd, and must not make the next lease read more.
    reach.learn(short=len(leased.jobs) < min(limit, candidates))
    return replace(leased, more=candidates > len(leased.jobs))


def _leased(
    request: LeaseRequest, rows: Rows, announced: Announced | None, *, more: bool = False
) -> Leased:
    """The answer, from the rows of a statement that leased."""
    now, _, due_at, *_ = rows[0]
    if announced is not None:
        announced.hear(row[ANNOUNCE] for row in rows)
    return Leased(
        jobs=tuple(shape_of(request.worker).all(row for row in rows if row[JOB] is not None)),
        now=from_micros(now),
        more=more,
        due_in=None if due_at is None or due_at == NEVER else (due_at - now) / 1_000_000,
    )


def held_steps(worker: str, *, sql: Catalogue) -> Steps[list[LeasedJob]]:
    """The jobs that a worker holds."""
    rows = yield from ask(sql["held"](worker=worker), last=True)
    return shape_of(worker).all(rows)
