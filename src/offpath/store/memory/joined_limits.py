"""Admission of jobs that have several limits, and of those that share a limit with them.

A job takes of all of its limits or of none. Jobs with the same limits stand in one line; the best
of all lines goes first, and a line that does not fit is passed over as a whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from offpath.model.joined_limits import Room, keys_of, took
from offpath.model.limit import Admitted
from offpath.store.memory.held_jobs import UNTAKEN, count, heads, queues
from offpath.store.memory.lanes import Place
from offpath.store.memory.limit_rows import MemoryLimit
from offpath.store.rows.jobs import admitted, held_again

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables


def admit(tables: Tables, now: datetime, limit: int, keys: Sequence[str]) -> Admitted:
    """Make the best held jobs of these keys ready, up to the room of all of their limits."""
    rows = [tables.limits.rows[key] for key in keys]
    # First, so that room which nobody takes goes to others in this very pass.
    for name in sorted({name for key in keys for name in keys_of(key)}):
        _send_untaken_behind(tables, now, tables.limits.rows[name], rows)
    names = {name for key in keys for name in keys_of(key)}
    rooms = {name: _room(tables.limits.rows[name], now) for name in names}
    granted, more = _let_in(tables, now, limit, rows, rooms)
    for key in keys:
        # To the end of the line: a pass that is cut goes on with the keys that it has not reached.
        if key in tables.limits.waiting:
            tables.limits.waiting[key] = tables.limits.waiting.pop(key)
    return Admitted(jobs=granted, more=more, next_in=_next_in(tables, now, rooms))


def _room(row: MemoryLimit, now: datetime) -> Room:
    return Room.of(row.room(now), row.spec.rate, row.rate, now.timestamp())


def _let_in(
    tables: Tables,
    now: datetime,
    limit: int,
    rows: Iterable[MemoryLimit],
    rooms: dict[str, Room],
) -> tuple[int, bool]:
    """The number of jobs that became ready, and True if only the pass itself bounded it."""
    line = [
        (*best, row.key) for row in rows if (best := min(heads(tables, now, row), default=None))
    ]
    heapq.heapify(line)
    granted = 0
    while line and granted < limit:
        _, job, key = heapq.heappop(line)
        # Its next job has the same limits and would not fit either, so the line does not come back.
        if not took(key, rooms):
            continue
        granted += 1
        tables.file(admitted(tables.jobs[job]), now)
        row = tables.limits.rows[key]
        if best := min(heads(tables, now, row), default=None):
            heapq.heappush(line, (*best, key))
    return granted, bool(line) and granted > 0


def _next_in(tables: Tables, now: datetime, rooms: dict[str, Room]) -> float | None:
    """Notes what the rates remember; seconds until one of these lets in more by time alone."""
    waits = list[float]()
    for name, room in rooms.items():
        row = tables.limits.rows[name]
        if after := room.after(now.timestamp()):
            row.rate = after.state
        if (wait := room.wait(now.timestamp())) is not None:
            waits.append(wait)
        closed = row.ends_at(now)
        if closed is not None and not row.paused:
            waits.append((closed - now).total_seconds())
    return min(waits, default=None)


def _send_untaken_behind(
    tables: Tables, now: datetime, limit: MemoryLimit, rows: Sequence[MemoryLimit]
) -> None:
    """Take back ready jobs that nobody took for long, where others wait for the limit, which is
    full.
    """
    most = limit.spec.max_running
    if most is None or limit.taken < most:
        return
    lines = (limit, *(tables.limits.rows[line] for line in limit.lines))
    ready = [pair for line in lines for pair in line.ready.items()]
    untaken = [each for each, since in ready if since + UNTAKEN <= now]
    near = [other for other in rows if limit.key in keys_of(other.key)]
    others = sum(count(tables, now, other) for other in near) if untaken else 0
    for each in untaken[:others]:
        job = tables.jobs[each]
        tables.limits.send_behind(job, _last(tables, now, near), now)
        tables.file(held_again(job), now)


def _last(tables: Tables, now: datetime, rows: Iterable[MemoryLimit]) -> Place:
    # Behind the last of those that wait, or the same jobs would be let in again at once.
    return max(rank for row in rows for heap in queues(tables, now, row) for rank in heap.ranks())
