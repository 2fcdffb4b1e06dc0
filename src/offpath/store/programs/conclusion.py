"""The end of jobs that did not end by their worker: what follows from it, and what is told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from offpath.model.changes import ChangedJob
from offpath.model.job import DeadReason
from offpath.store.programs import gates
from offpath.store.programs.aftermath import Aftermath, End, Overdue
from offpath.store.programs.answers import STATES, MovedRow
from offpath.store.programs.dialect import Dialect, Steps, embed
from offpath.store.programs.group_work import GroupWork, Left
from offpath.store.sql import Row


def conclude(
    d: Dialect,
    ends: Sequence[End],
    keep: float | None,
    *,
    closing: Sequence[str] = (),
    roots: Sequence[Row] = (),
    given_back: Sequence[str] = (),
    overdue: Overdue | None = None,
) -> Steps[Aftermath]:
    """Count ends in gates and groups, as the last of a transaction.

    ``closing`` are groups that are marked, of whose roots ``roots`` have just been counted in;
    ``given_back`` are the limits of jobs that this transaction has put back. ``overdue`` is what
    was left behind by others.
    """
    work = GroupWork(closing=set(closing))
    for root in roots:
        work.join_root(root, frozenset())
    # Few jobs are watched: for the others the look for gates is spared.
    watched = {end.id: False for end in ends if end.watched}
    # Rows of gates come before those of limits, and the groups come last: the order of all.
    moved = yield from embed(gates.count_ends(d, watched, keep))
    if overdue is not None:
        moved += yield from embed(gates.catch_up(d, overdue, keep))
    d.announced.hear(row.announce for row in moved)
    d.announced.moved |= gates.released(moved)
    held = yield from d.hold_again(given_back)
    for end in ends:
        if end.grouped:
            work.end(end.group_id, failed=True, job=end.id)
    work.end_moved(moved)
    left = yield from d.write_groups(work)
    # Of several members that end at once one tells the end of the group: the last, so that it is
    # told once.
    last = {end.group_id: end.id for end in ends}
    done = {end.id for end in ends if last[end.group_id] == end.id and _is_over(left, end)}
    # Which of the ends has decided a gate is not known here: one of them tells of all who died.
    cause = max(watched, default="")
    died = told(gates.dead(moved), left, elsewhere=last)
    return Aftermath(done, [(each, cause) for each in died], held)


def told(
    died: Sequence[MovedRow], left: Mapping[str, Left], elsewhere: Collection[str] = ()
) -> list[ChangedJob]:
    """The report of jobs that died; the last of a group that is done says so.

    The ends of the groups of ``elsewhere`` are told by another answer.
    """
    last = {row.group_id: row.id for row in died}
    return [
        ChangedJob(
            id=row.id,
            task=row.task,
            queue=row.queue,
            group_id=row.group_id,
            was=STATES[row.was],
            state=STATES[row.state],
            attempt=row.attempt,
            parent=row.parent,
            group_done=last[row.group_id] == row.id
            and row.group_id not in elsewhere
            and _is_over(left, row),
            reason=None if row.reason is None else DeadReason(row.reason),
        )
        for row in died
    ]


def is_done(left: Mapping[str, Left], group: str, *, redrives: int) -> bool:
    """True if a group that a job has left is done for the first time.

    A job without a row of its group is its own group, which is done when the job first ends.
    """
    there = left.get(group)
    return redrives == 0 if there is None else there.done


def _is_over(left: Mapping[str, Left], end: End | MovedRow) -> bool:
    return is_done(left if end.grouped else {}, end.group_id, redrives=end.redrives)
