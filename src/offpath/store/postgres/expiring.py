"""Giving up what has waited too long, and finding what was skipped because somebody held it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from offpath.model.gate import GateState
from offpath.model.job import JobState
from offpath.store.changes import Changed
from offpath.store.postgres.aftermath import dead, told
from offpath.store.postgres.gates import count_ends, count_left_ends, move_jobs, released
from offpath.store.postgres.groups import GroupWork
from offpath.store.postgres.steps import ids_json, moment, to_json
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.dialect import Announced, Rows, Send, Steps, ask, embed
from offpath.store.sql import Catalogue


class _Found(NamedTuple):
    """The rows that a look has found, by small indexes that are mostly empty."""

    due: list[str]
    uncounted: dict[str, bool]
    """Watched jobs that have ended uncounted, and whether they succeeded."""


def expire_steps(
    limit: int,
    keep: float | None,
    now: datetime | None,
    announced: Announced,
    *,
    sql: Catalogue,
) -> Steps[list[ChangedJob]]:
    """Give up due waits; then repair. Job rows that somebody else holds are left for the next time.

    Gates of the given up are waited for, in their order, before any other gate is taken.
    """
    missed = yield from ask(sql["missed_signals"](now=moment(now), limit=limit))
    if missed:
        announced.moved |= yield from _wake_missed(missed, now, sql=sql)
    found = yield from _look(limit, now, sql)
    moved = yield from _give_up(found.due, keep, now, sql)
    watched = {row.id: False for row in dead(moved) if row.watched}
    followed = yield from embed(count_ends(watched, keep, now, sql=sql))
    if watched:
        yield from ask(sql["note_counted"](ids=ids_json(watched)))
    if found.uncounted:
        followed += yield from embed(count_left_ends(found.uncounted, keep, now, sql=sql))
    followed += yield from _catch_up(limit, keep, now, sql)
    announced.moved |= released(followed)
    return (yield from _conclude([*moved, *dead(followed)], announced, now, sql))


def _wake_missed(missed: Rows, now: datetime | None, *, sql: Catalogue) -> Steps[set[JobState]]:
    """Wake who still waits for these signals."""
    batch = [{"target": target, "event": event} for _, target, event in missed]
    yield from ask(sql["lock_signals"](batch=to_json(batch)))
    moved: set[JobState] = set()
    for signal, target, event in missed:
        rows = yield from ask(sql["wake_sleeper"](now=moment(now), target=target, event=event))
        if rows:
            moved.add(JobState.QUEUED)
        yield from ask(sql["found_sleeper" if rows else "note_missed"](id=signal))
    return moved


def _look(limit: int, now: datetime | None, sql: Catalogue) -> Steps[_Found]:
    blocked, queued, uncounted, _ = yield Send(
        (
            sql["due_blocked"](now=moment(now), limit=limit),
            sql["due_queued"](now=moment(now), limit=limit),
            sql["uncounted"](limit=limit),
            sql["expire_signals"](now=moment(now), limit=limit),
        )
    )
    due = [job for (job,) in (*blocked, *queued)][:limit]
    return _Found(due, {job: standing > 0 for job, standing in uncounted})


def _give_up(
    due: Sequence[str], keep: float | None, now: datetime | None, sql: Catalogue
) -> Steps[list[MovedRow]]:
    if not due:
        return []
    ids = ids_json(due)
    told = () if now is None else (sql["tell_the_time"](now=moment(now)),)
    answers = yield Send(
        (
            *told,
            sql["lock_gates_of"](ids=ids),
            sql["time_out_gates"](now=moment(now), ids=ids),
            sql["give_up"](now=moment(now), ids=ids, keep=keep),
        )
    )
    return [MovedRow(*row) for row in answers[-1]]


def _catch_up(
    limit: int, keep: float | None, now: datetime | None, sql: Catalogue
) -> Steps[list[MovedRow]]:
    """Move the jobs of decided gates that could not be moved at once."""
    rows = yield from ask(sql["behind_gates"](limit=limit))
    if not rows:
        return []
    states = {gate: GateState(state) for gate, state in rows}
    moved = yield from embed(move_jobs(states, keep, now, sql=sql))
    ended = {row.id: False for row in dead(moved)}
    if ended:
        moved = moved + (yield from embed(count_left_ends(ended, keep, now, sql=sql)))
    return moved


def _conclude(
    rows: list[MovedRow], announced: Announced, now: datetime | None, sql: Catalogue
) -> Steps[list[ChangedJob]]:
    announced.hear(row.announce for row in rows)
    announced.moved |= released(rows)
    work = GroupWork()
    work.end_moved(rows)
    left = yield from work.lasting(now, sql=sql)
    return told(rows, left)
