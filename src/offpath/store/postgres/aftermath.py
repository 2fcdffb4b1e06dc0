"""The end of jobs that did not end by their worker: what follows from it, and what is told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import msgspec

from offpath.model.changes import ChangedJob
from offpath.model.job import TERMINAL, DeadReason
from offpath.store.postgres.groups import GroupWork, Left
from offpath.store.postgres.limits import hold_again_steps
from offpath.store.postgres.steps import public
from offpath.store.postgres.words import PostgresWording
from offpath.store.programs import gates
from offpath.store.programs.aftermath import Aftermath, End, Overdue
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.dialect import Announced, Steps, embed
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
    w = PostgresWording(sql, now)
    moved = yield from embed(gates.count_ends(w, watched, keep))
    if overdue is not None:
        moved += yield from embed(gates.catch_up(w, overdue, keep))
    announced.hear(row.announce for row in moved)
    announced.moved |= gates.released(moved)
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
    died = told(gates.dead(moved), left, elsewhere=last)
    return Aftermath(done, [(each, cause) for each in died], held)


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


def _is_done(left: Mapping[str, Left], group: str) -> bool:
    there = left.get(group)
    return there is not None and there.done
