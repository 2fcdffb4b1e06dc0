"""Limits as people see them: what each key allows, and how much of it is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from offpath.model.limit import LimitRecord, RateSpec
from offpath.store.programs.answers import LimitRow
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
