"""Limits and queues as people see them: what is allowed, what is taken, and what is paused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from offpath.model.limit import LimitRecord, QueueRecord, RateSpec
from offpath.store.flow import MOST_IN_QUEUE
from offpath.store.hints import Hint
from offpath.store.programs.answers import LimitRow, QueueRow
from offpath.store.programs.dialect import Dialect, Steps, one
from offpath.store.programs.instants import readable
from offpath.store.sql import Query
from offpath.store.unreadable import Shape

_rate: Final = msgspec.json.Decoder(RateSpec).decode


def limits(
    d: Dialect, *, limit: int = 1000, after: str | None = None, keys: Sequence[str] = ()
) -> Steps[list[LimitRecord]]:
    """Known keys by name, those after ``after``; or these keys."""
    return _RECORDS.all((yield from one(_limits(d, max(limit, 0), after, keys))))


def _limits(d: Dialect, limit: int, after: str | None, keys: Sequence[str]) -> Query:
    bounds = {"now": d.now, "limit": limit, "after": after}
    wanted = d.batch(list(keys)) if keys else None
    # SQLite plans a statement before it has the values: for few keys it has a statement of its own
    if keys and "some_limits" in d.sql:
        return d.sql["some_limits"](**bounds, keys=wanted)
    return d.sql["limits"](**bounds, keys=wanted)


def count_held(d: Dialect, *, limit: int) -> Steps[int]:
    """The number of jobs that wait for room, over all keys, counted up to a limit."""
    [[number]] = yield from one(d.sql["count_held"](limit=max(limit, 0)))
    return int(number)


def _record(row: LimitRow) -> LimitRecord:
    return LimitRecord(
        key=row.key,
        max_running=row.max_running,
        rate=None if row.rate is None else _rate(row.rate),
        admitted=row.admitted,
        running=row.running,
        held=row.held,
        closed_until=readable(row.closed_until),
        paused=bool(row.paused),
    )


_RECORDS: Final = Shape.of(
    LimitRow("", None, None, 0, 0, 0, None, 0), _record, lambda record, _: record
)


# -- queues ----------------------------------------------------------------------------------------


def pause(d: Dialect, name: str, *, until: datetime | None = None) -> Steps[None]:
    """Hand out nothing of a queue."""
    yield from one(d.sql["pause_queue"](queue=name, until=d.at(until)))


def resume(d: Dialect, name: str) -> Steps[bool]:
    """Hand out its jobs again; False: it was not paused."""
    rows = yield from one(d.sql["resume_queue"](queue=name, now=d.now))
    # A pause whose time is over leaves its row behind, and held nobody back any more.
    was_paused = any(paused for (paused,) in rows)
    if was_paused:
        d.announced.tell(Hint.WORK)
    return was_paused


def queues(d: Dialect, *, most: int = MOST_IN_QUEUE) -> Steps[list[QueueRecord]]:
    """Queues with unended jobs or a pause, by name."""
    rows = yield from one(d.sql["queues"](now=d.now, most=most))
    return [_queue(QueueRow(*row)) for row in rows]


def _queue(row: QueueRow) -> QueueRecord:
    return QueueRecord(
        name=row.name,
        blocked=row.blocked,
        held=row.held,
        scheduled=row.scheduled,
        ready=row.ready,
        running=row.running,
        paused=bool(row.paused),
        paused_until=readable(row.paused_until),
    )
