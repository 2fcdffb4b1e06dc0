"""Limits by key: who is admitted, who is held, and how many may go next.

A job of a limited key counts as admitted while it is ready or running. This is kept where records
are filed, so it cannot drift from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from offpath.model.job import JobRecord, JobState
from offpath.model.joined_limits import first_of, is_joined, keys_of
from offpath.model.limit import Admitted, LimitRecord
from offpath.model.rate import take
from offpath.store.memory import joined_limits
from offpath.store.memory.held_jobs import UNTAKEN, best, count, queues
from offpath.store.memory.limit_rows import MemoryLimit
from offpath.store.rows.jobs import admitted, held_again

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables

AT_ONCE = 1000
"""Jobs that a settlement's own pass admits at most."""


# -- admission -----------------------------------------------------------------------------------


def admit(tables: Tables, now: datetime, limit: int, keys: Sequence[str]) -> Admitted:
    """Make held jobs ready, up to the room of their keys."""
    turns = [each for each in (keys or tuple(tables.limits.waiting)) if _has_held(tables, each)]
    jobs, more, waits = 0, False, list[float]()
    if shared := tables.limits.sharing(keys or turns):
        done = joined_limits.admit(tables, now, limit, shared)
        jobs, more = done.jobs, done.more
        waits += [] if done.next_in is None else [done.next_in]
        # These had their turn together with the keys that share a limit with them.
        turns = [each for each in turns if each not in shared]
    for key in turns:
        if jobs >= limit:
            return Admitted(jobs=jobs, more=True)
        done = _admit_key(tables, now, tables.limits.rows[key], limit - jobs)
        jobs += done.jobs
        more |= done.more
        waits += [] if done.next_in is None else [done.next_in]
        # To the end of the line: a pass that is cut by its limit goes on with the keys that it has
        # not reached.
        if key in tables.limits.waiting:
            tables.limits.waiting[key] = tables.limits.waiting.pop(key)
    return Admitted(jobs=jobs, more=more, next_in=min(waits, default=None))


def _has_held(tables: Tables, key: str) -> bool:
    row = tables.limits.rows.get(key)
    return row is not None and bool(row.held)


def _admit_key(tables: Tables, now: datetime, row: MemoryLimit, limit: int) -> Admitted:
    # First, so that room which nobody takes goes to others in this very pass.
    _send_untaken_behind(tables, now, row)
    wanted = int(min(row.room(now), count(tables, now, row)))
    granted, next_in = _by_rate(row, now, min(wanted, limit))
    for _ in range(granted):
        job = tables.jobs[best(tables, now, row)]
        tables.file(admitted(job), now)
    left = wanted - granted
    return Admitted(
        jobs=granted,
        # Only a pass that its limit has cut can do more at once. One that the rate has cut must
        # wait.
        more=left > 0 and granted == limit,
        next_in=_next_in(row, now) if left == 0 else next_in,
    )


def _next_in(row: MemoryLimit, now: datetime) -> float | None:
    """Seconds until the passing of time alone lets in more."""
    closed = row.ends_at(now)
    if closed is None or row.paused or not row.held:
        return None
    return (closed - now).total_seconds()


def _by_rate(row: MemoryLimit, now: datetime, wanted: int) -> tuple[int, float | None]:
    """The number of these that may start now, and the time when the next one may."""
    if row.spec.rate is None or wanted == 0:
        return wanted, None
    taken = take(row.spec.rate, row.rate, now.timestamp(), wanted)
    row.rate = taken.state
    return taken.granted, taken.next_in


def _send_untaken_behind(tables: Tables, now: datetime, row: MemoryLimit) -> None:
    """Take back ready jobs that nobody took for long, as far as others could go instead."""
    long_ago = takewhile(lambda each: each[1] + UNTAKEN <= now, row.ready.items())
    untaken = [each for each, _ in long_ago]
    others = count(tables, now, row) if untaken else 0
    if not others or row.room(now) >= others:
        return
    # Behind the last of those that wait, or the same jobs would be let in again at once.
    last = max(rank for heap in queues(tables, now, row) for rank in heap.ranks())
    # As many as others can replace: more would leave room unused.
    for each in untaken[:others]:
        job = tables.jobs[each]
        tables.limits.send_behind(job, last, now)
        tables.file(held_again(job), now)


def given_back(tables: Tables, now: datetime, job: JobRecord) -> JobRecord:
    """A job whose turn is not over: it keeps its room, unless its key has been closed meanwhile."""
    is_ready = job.state is JobState.QUEUED and job.run_at <= now
    if job.limit_key is None or not is_ready:
        return job
    rows = (tables.limits.rows.get(key) for key in keys_of(job.limit_key))
    closed = (row is not None and (row.paused or row.ends_at(now) is not None) for row in rows)
    return held_again(job) if any(closed) else job


# -- an operator's calls -------------------------------------------------------------------------


def close(tables: Tables, now: datetime, key: str, until: datetime | None) -> int:
    """Admit nothing of a key, until a moment or for good; how many ready jobs are held again."""
    row = tables.limits.row(first_of(key))
    if until is None:
        row.paused = True
    # An end that has passed closes nothing, so no ready job has to wait again.
    elif until <= now:
        return 0
    # Of two cool-downs the later end counts, whichever came first.
    elif row.closed_until is None or row.closed_until < until:
        row.closed_until = until
    lines = (row, *(tables.limits.rows[line] for line in row.lines))
    ready = [each for line in lines for each in line.ready]
    for each in ready:
        tables.file(held_again(tables.jobs[each]), now)
    return len(ready)


def reopen(tables: Tables, now: datetime, key: str) -> bool:
    """End a pause and a cool-down; False: there was none."""
    row = tables.limits.rows.get(key)
    if row is None:
        return False
    closed = row.paused or row.ends_at(now) is not None
    row.paused, row.closed_until = False, None
    return closed


def records(
    tables: Tables, now: datetime, *, limit: int, after: str | None, keys: Sequence[str]
) -> list[LimitRecord]:
    """Known keys by name."""
    rows = tables.limits.rows
    known = set(keys) & rows.keys() if keys else rows
    names = sorted(each for each in known if not is_joined(each))
    behind = [each for each in names if after is None or each > after]
    return [_record(tables, rows[each], now) for each in behind[: max(limit, 0)]]


def count_held(tables: Tables) -> int:
    """The number of jobs that wait to be admitted, over all keys."""
    rows = (tables.limits.rows[key] for key in tables.limits.waiting)
    return sum(len(heap) for row in rows for heap in row.held.values())


def _record(tables: Tables, row: MemoryLimit, now: datetime) -> LimitRecord:
    lines = [(tables.limits.rows[line], cost) for line, cost in row.lines.items()]
    held = sum(
        len(heap) for line in (row, *(line for line, _ in lines)) for heap in line.held.values()
    )
    return LimitRecord(
        key=row.key,
        max_running=row.spec.max_running,
        rate=row.spec.rate,
        admitted=row.taken,
        running=len(row.running) + sum(len(line.running) * cost for line, cost in lines),
        held=held,
        closed_until=row.ends_at(now),
        paused=row.paused,
    )


# -- upkeep --------------------------------------------------------------------------------------


def prune(tables: Tables, now: datetime, limit: int) -> None:
    """Forget keys that have no jobs, are not closed, and whose rate remembers nothing."""
    idle = [row.key for row in tables.limits.rows.values() if _is_idle(row, now)]
    for key in idle[:limit]:
        tables.limits.forget(key)


def _is_idle(row: MemoryLimit, now: datetime) -> bool:
    if row.unended or row.lines or row.paused or row.ends_at(now) is not None:
        return False
    rate = row.spec.rate
    # After two periods no kind of rate remembers anything that counts.
    return rate is None or row.rate is None or now.timestamp() - row.rate.at >= 2 * rate.per
