"""The end of jobs that did not end by their worker: what follows from it, and what is told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from offpath.model.changes import ChangedJob
from offpath.model.gate import GateState
from offpath.model.job import TERMINAL, DeadReason, JobState
from offpath.store.postgres.gates import count_ends, count_left_ends, move_jobs, released
from offpath.store.postgres.groups import GroupWork, Left
from offpath.store.postgres.limits import hold_again_steps
from offpath.store.postgres.steps import public
from offpath.store.programs.aftermath import Aftermath, End, Overdue
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.dialect import Announced, Steps, ask, embed
from offpath.store.sql import Catalogue, Row


def conclude_steps(
    ends: Sequence[End],
    keep: float | None,
    now: datetime | None,
    announced: Announced,
    *,
    closing: Sequence[str],
    roots: Sequence[Row],
    given_back: Sequence[str],
    overdue: Overdue | None,
    sql: Catalogue,
) -> Steps[Aftermath]:
    """Count ends in gates and groups, as the last of a transaction.

    Rows of gates come before those of limits, and the groups come last: the order of all.
    """
    work = GroupWork(closing=set(closing))
    for root in roots:
        work.join_root(root, frozenset())
    watched = {end.id: False for end in ends if end.watched}
    moved = yield from embed(count_ends(watched, keep, now, sql=sql))
    if overdue is not None:
        moved += yield from _catch_up(overdue, keep, now, sql)
    announced.hear(row.announce for row in moved)
    announced.moved |= released(moved)
    held = yield from hold_again_steps(given_back, now, sql=sql)
    for end in ends:
        if end.grouped:
            work.end(end.group_id, failed=True)
    work.end_moved(moved)
    # Behind all else: the rows of groups are where members of large groups meet, so they are held
    # for the shortest time.
    left = yield from work.lasting(now, sql=sql)
    last = {end.group_id: end.id for end in ends}
    done = {end.id for end in ends if _ends_group(end, last, left)}
    # which of the ends has decided a gate is not known here: one of them tells of all who died
    cause = max(watched, default="")
    died = told(dead(moved), left, elsewhere=last)
    return Aftermath(done, [(each, cause) for each in died], held)


def _catch_up(
    overdue: Overdue, keep: float | None, now: datetime | None, sql: Catalogue
) -> Steps[list[MovedRow]]:
    """Count ends that nobody counted, and move the jobs of decided gates that were skipped."""
    moved: list[MovedRow] = []
    if overdue.uncounted:
        moved += yield from embed(count_left_ends(overdue.uncounted, keep, now, sql=sql))
    rows = yield from ask(sql["behind_gates"](limit=overdue.limit))
    if rows:
        states = {gate: GateState(state) for gate, state in rows}
        behind = yield from embed(move_jobs(states, keep, now, sql=sql))
        ended = {row.id: False for row in dead(behind)}
        if ended:
            behind = behind + (yield from embed(count_left_ends(ended, keep, now, sql=sql)))
        moved += behind
    return moved


def _ends_group(end: End, last: Mapping[str, str], left: Mapping[str, Left]) -> bool:
    """True if the end of this job ended its group, for the first time."""
    if not end.grouped:
        return end.redrives == 0
    return _is_done(left, end.group_id) and last[end.group_id] == end.id


def told(
    rows: Sequence[MovedRow], left: Mapping[str, Left], elsewhere: Collection[str] = ()
) -> list[ChangedJob]:
    """The report of changed jobs; the last of a group that is done says so.

    The ends of the groups of ``elsewhere`` are told by another answer.
    """
    last = {row.group_id: n for n, row in enumerate(rows) if ended(row)}
    return [
        msgspec.structs.replace(
            change(row),
            group_done=ended(row)
            and (
                _is_done(left, row.group_id)
                and last[row.group_id] == n
                and row.group_id not in elsewhere
                if row.grouped
                else row.redrives == 0
            ),
            reason=None if row.reason is None else DeadReason(row.reason),
        )
        for n, row in enumerate(rows)
    ]


def change(row: MovedRow) -> ChangedJob:
    """A changed job by itself."""
    return ChangedJob(
        id=row.id,
        task=row.task,
        queue=row.queue,
        group_id=row.group_id,
        was=public(row.was),
        state=public(row.state),
        attempt=row.attempt,
        parent=row.parent,
    )


def ended(row: MovedRow) -> bool:
    """True if the change is the end of the job."""
    return row.was != row.state and public(row.state) in TERMINAL


def dead(rows: Iterable[MovedRow]) -> list[MovedRow]:
    """The rows of jobs that have died."""
    return [row for row in rows if row.state == JobState.DEAD.value]


def _is_done(left: Mapping[str, Left], group: str) -> bool:
    there = left.get(group)
    return there is not None and there.done
