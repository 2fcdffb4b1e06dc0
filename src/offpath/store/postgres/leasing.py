"""Handing out work."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from offpath.model.job import LeasedJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.store.postgres.steps import Send, Steps, moment, to_json
from offpath.store.sql import Catalogue

PROMOTED_AT_ONCE: Final = 500
_MOST: Final = 8


class _Answer(Struct, frozen=True):
    now: datetime
    jobs: tuple[LeasedJob, ...]
    candidates: int
    due_in: float | None


_decoder = msgspec.json.Decoder(_Answer)


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
    request: LeaseRequest, now: datetime | None, reach: Reach, *, sql: Catalogue
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
    )
    answer = _decoder.decode(rows[1][0][0])
    short = len(answer.jobs) < min(limit, answer.candidates)
    reach.learn(short=short)
    return Leased(
        jobs=answer.jobs,
        now=answer.now,
        more=answer.candidates > len(answer.jobs),
        due_in=answer.due_in,
    )
