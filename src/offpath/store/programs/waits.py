"""Waits that are over: deadlines, gates and signals that did not come in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from offpath.model.changes import ChangedJob
from offpath.model.job import DeadReason, JobState
from offpath.store.hints import Hint
from offpath.store.programs.aftermath import (
    KEPT_FAILURES,
    Aftermath,
    End,
    FailedAttempt,
    Overdue,
    given_up,
)
from offpath.store.programs.answers import STATES, DueRow, GivenUpRow, MissedRow, OverRow, WokenRow
from offpath.store.programs.conclusion import conclude
from offpath.store.programs.dialect import Dialect, Send, Steps, ask

_WOKEN: Final = "woken"
"""The fate of a job that waited for a signal: it becomes due without one."""


class _Over(msgspec.Struct):
    """A job whose wait is over, as ``give_up`` takes it."""

    id: str
    fate: str


class _Address(msgspec.Struct):
    """A signal that somebody may wait for, as ``lock_signals`` takes it."""

    target: str
    event: str


def expire(d: Dialect, *, limit: int, keep: float | None = None) -> Steps[list[ChangedJob]]:
    """Give up waits that are over; then repair. Jobs that somebody else holds wait for the next."""
    most = max(limit, 0)
    # Before all else: a sender takes the turn of a signal first, and then may wait for rows of
    # jobs.
    woken = yield from _pass_on(d, most)
    blocked, queued, uncounted, _ = yield Send(
        (
            d.sql["due_blocked"](limit=most, now=d.now),
            d.sql["due_queued"](limit=most, now=d.now),
            d.sql["uncounted"](limit=most),
            d.sql["expire_signals"](limit=most, now=d.now),
        )
    )
    due = [DueRow(*row) for row in blocked]
    were = dict.fromkeys((job.id for job in due), JobState.BLOCKED)
    were |= dict.fromkeys((job for (job,) in queued), JobState.QUEUED)
    # Each of the two looks may be full, and the bound is for the call.
    moved = yield from _give_up(d, list(were)[:most], keep)
    ends = [_end(job) for job in moved if _died(job)]
    # SQLite's workers of the version before may have left jobs at a gate that has fired
    fired = sorted({job.gate for job in due if job.gate and job.gate_state == "fired"})
    standing = {job: outcome > 0 for job, outcome in uncounted}
    overdue = Overdue(standing, fired, most)
    after = yield from conclude(d, ends, keep, overdue=overdue)
    d.announced.hear(job.announce for job in moved)
    d.announced.moved.update(STATES[job.state] for job in moved)
    if ends:
        d.announced.tell(Hint.WORK)  # what ends gives its key and its room to others
    return [*woken, *_told(moved, were, after), *after.all_along()]


def _pass_on(d: Dialect, limit: int) -> Steps[list[ChangedJob]]:
    """Wake who waits for signals that somebody has missed or left. Their locks come first."""
    rows = yield from ask(d.sql["missed_signals"](limit=limit, now=d.now))
    missed = [signal for signal in map(MissedRow._make, rows) if signal.there]
    if not missed:
        return []
    addresses = [_Address(signal.target, signal.event) for signal in missed]
    yield Send((*d.told_the_time(), d.sql["lock_signals"](batch=d.batch(addresses))))
    woken: list[WokenRow] = []
    for signal in missed:
        target, event = signal.target, signal.event
        found = yield from ask(d.sql["wake_sleeper"](target=target, event=event, now=d.now))
        # Somebody else may hold the waiter: then the mark stays for the next pass.
        yield from ask(d.sql["found_sleeper" if found else "note_missed"](id=signal.id))
        woken += (WokenRow(*row) for row in found)
    d.announced.hear(job.announce for job in woken)
    if woken:
        d.announced.moved.add(JobState.QUEUED)
    return [_woken(job) for job in woken]


def _give_up(d: Dialect, due: Sequence[str], keep: float | None) -> Steps[list[GivenUpRow]]:
    """End what these jobs wait for. Their gates are held before any other gate is taken."""
    if not due:
        return []
    ids = d.ids(due)
    *_, judged = yield Send(
        (
            *d.told_the_time(),
            d.sql["lock_gates_of"](ids=ids),
            d.sql["time_out_gates"](ids=ids, now=d.now),
            d.sql["judge_waits"](ids=ids, now=d.now),
        )
    )
    over = [OverRow(*row) for row in judged]
    dead = [job for job in over if job.fate != _WOKEN]
    if d.failures_first:
        yield from _record(d, dead)
    moved: list[GivenUpRow] = []
    left = [_Over(job.id, job.fate) for job in over]
    while left:  # of those that would take one unique key SQLite passes over all but the first
        query = d.sql["give_up"](batch=d.batch(left), keep=d.span(keep), now=d.now)
        rows = [GivenUpRow(*row) for row in (yield from ask(query))]
        moved += rows
        known = {row.id for row in rows}
        # Where nothing moved, nothing would the next time: so the loop ends.
        left = [job for job in left if job.id not in known] if known else []
    if not d.failures_first:
        yield from _record(d, dead)
    return sorted(moved)


def _record(d: Dialect, dead: Sequence[OverRow]) -> Steps[None]:
    """Write why they die."""
    if not dead:
        return
    failures = [
        FailedAttempt(job.id, job.deliveries, given_up(job.fate, job.attempt)) for job in dead
    ]
    ids = d.ids(job.id for job in dead)
    yield Send(
        (
            d.sql["add_failures"](batch=d.batch(failures), now=d.now),
            d.sql["trim_failures"](ids=ids, keep=KEPT_FAILURES),
        )
    )


def _died(job: GivenUpRow) -> bool:
    return job.state == JobState.DEAD.value


def _end(job: GivenUpRow) -> End:
    return End(job.id, job.group_id, bool(job.grouped), bool(job.watched), job.redrives)


def _told(
    moved: Iterable[GivenUpRow], were: Mapping[str, JobState], after: Aftermath
) -> list[ChangedJob]:
    return [
        ChangedJob(
            id=job.id,
            task=job.task,
            queue=job.queue,
            group_id=job.group_id,
            was=were[job.id],
            state=STATES[job.state],
            attempt=job.attempt,
            parent=job.parent,
            group_done=job.id in after.done,
            reason=None if job.reason is None else DeadReason(job.reason),
        )
        for job in moved
    ]


def _woken(job: WokenRow) -> ChangedJob:
    return ChangedJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        group_id=job.group_id,
        was=JobState.BLOCKED,
        state=JobState.QUEUED,
        attempt=job.attempt,
        parent=job.parent,
    )


def nothing_is_up(
    d: Dialect,
    *,
    limit: int,  # noqa: ARG001 - as the program
    keep: float | None = None,  # noqa: ARG001 - as the program
) -> Steps[list[ChangedJob] | None]:
    """An empty list when there is nothing to give up, to repair or to remove; otherwise None.

    SQLite looks so before it takes the write lock.
    """
    return None if (yield from ask(d.sql["anything_over"](now=d.now))) else []
