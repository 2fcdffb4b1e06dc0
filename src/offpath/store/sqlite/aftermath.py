"""The consequences of ends: gates that count them, jobs that die along, groups that are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from offpath.store.programs import gates
from offpath.store.programs.aftermath import Aftermath, End, Overdue
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.dialect import Announced, Queries
from offpath.store.sqlite import groups
from offpath.store.sqlite.groups import EndedJob, JoinedGroups
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL
from offpath.store.sqlite.words import SqliteWording


def aftermath_steps(
    moved: Sequence[MovedRow],
    ended: Sequence[EndedJob],
    cause: Mapping[str, str],
    *,
    joined: JoinedGroups | None = None,
    ensured: Collection[str] = (),
) -> Queries[tuple[Aftermath, Mapping[str, bool]]]:
    """Count ends in groups, with those of jobs that gates have moved; with the outcome, the groups
    that have a row and whether they are closing. A group whose last jobs died along is ended by one
    of ``ended``, if that is a member of it. ``cause`` names for jobs that died what caused it.
    """
    died = gates.dead(moved)
    closed = yield from groups.count_steps([*map(groups.ended_job, died), *ended], joined, ensured)
    along = [(each, cause.get(each.id, each.id)) for each in groups.told(died, closed.done)]
    return Aftermath(closed.done, along), closed.rows


def conclude_steps(
    ends: Sequence[End],
    keep: float | None,
    now: int,
    announced: Announced,
    *,
    closing: Sequence[str],
    given_back: Sequence[str],
    overdue: Overdue | None,
) -> Queries[Aftermath]:
    """Count the ends of jobs that did not end by their worker."""
    w = SqliteWording(now)
    watched = {end.id: False for end in ends if end.watched}
    moved = yield from gates.count_ends(w, watched, keep)
    if overdue is not None:
        moved += yield from gates.catch_up(w, overdue, keep)
    announced.hear(row.announce for row in moved)
    announced.moved |= gates.released(moved)
    held: set[str] = set()
    if given_back:
        rows = yield SQL["hold_closed"](keys=batch(sorted(set(given_back))), now=now)
        held = {job for (job,) in rows}
    there = (yield from groups.there_steps(closing)) if closing else []
    # Which of the ends has decided a gate is not known here: one of them tells of all who died.
    cause = max(watched, default="")
    after, _ = yield from aftermath_steps(
        moved,
        [EndedJob(end.id, end.group_id, "dead", end.redrives) for end in ends],
        {row.id: cause for row in moved},
        ensured=there,
    )
    # Behind the counts, for a group may have got its row only there.
    if there:
        yield SQL["mark_groups"](ids=batch(there))
    return after._replace(held=held)
