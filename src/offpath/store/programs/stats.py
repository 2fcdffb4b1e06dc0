"""Series: rows of spans of time, and how they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.stats import StatRow, merged_bodies, sums
from offpath.store.programs.dialect import Dialect, Send, Steps, ask, one
from offpath.store.rows.instants import from_seconds, whole_seconds
from offpath.store.stats import MOST_STATS


def put(d: Dialect, rows: Sequence[StatRow]) -> Steps[None]:
    """Add rows; one that is there stays."""
    if not rows:
        return
    batch = [
        {
            "step": row.step,
            "at": whole_seconds(row.at),
            "source": row.source,
            "body": row.body,
            "sums": sums(row.body),
        }
        for row in rows
    ]
    yield from one(d.sql["add_stats"](batch=d.batch(batch)))


def listed(
    d: Dialect,
    *,
    since: datetime,
    until: datetime,
    limit: int = MOST_STATS,
    named: bool = True,
) -> Steps[list[StatRow]]:
    """Rows of a time, the newest ones."""
    if limit <= 0:
        return []
    wanted = d.sql["stats" if named else "stat_sums"]
    rows = yield from one(
        wanted(since=whole_seconds(since), until=whole_seconds(until), limit=limit)
    )
    return [
        StatRow(step=step, at=from_seconds(at), source=source, body=body)
        for step, at, source, body in rows
    ]


def fold(d: Dialect, *, step: int, into: int, before: datetime) -> Steps[bool]:
    """Merge the oldest span of rows into one.

    The row that takes them in is made before it is read, so that it is locked: another one who
    merges late rows of the same span then adds to what was written here.
    """
    last = whole_seconds(before)
    parts = yield from ask(d.sql["take_stats"](step=step, into=into, before=last))
    if not parts:
        return False
    at = parts[0][0] // into * into
    _, kept = yield Send(
        (d.sql["open_stat"](step=into, at=at), d.sql["stat_body"](step=into, at=at))
    )
    body = merged_bodies([*(text for _, text in parts), *(text for (text,) in kept)])
    yield from one(d.sql["set_stat"](step=into, at=at, body=body, sums=sums(body)))
    return True


def prune(d: Dialect, *, step: int, before: datetime, limit: int) -> Steps[int]:
    """Remove old rows."""
    query = d.sql["prune_stats"](step=step, before=whole_seconds(before), limit=limit)
    return len((yield from one(query)))
