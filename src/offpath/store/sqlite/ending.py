"""The consequences of ends: gates that count them, jobs that die along, groups that are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from offpath.model.changes import ChangedJob
from offpath.store.sqlite import groups
from offpath.store.sqlite.gating import End, Fallen, Following
from offpath.store.sqlite.groups import Ended, JoinedGroups
from offpath.store.sqlite.session import Session


class Aftermath(NamedTuple):
    """The consequences of some ends."""

    done: Collection[str]
    """The jobs that ended their groups."""
    rows: Mapping[str, bool]
    """The groups with a row: whether they are closing."""
    fallen: Sequence[tuple[Fallen, str]]
    """Jobs that died along, each with the id of the job that was the cause."""

    def along(self, job_id: str) -> tuple[ChangedJob, ...]:
        """The jobs that died because of this one."""
        if not self.fallen:
            return ()
        return tuple(
            each.told(group_done=each.id in self.done)
            for each, cause in self.fallen
            if cause == job_id
        )

    def all_along(self) -> list[ChangedJob]:
        """Every job that died along."""
        return [each.told(group_done=each.id in self.done) for each, _ in self.fallen]


def aftermath(
    session: Session,
    following: Following,
    ended: Sequence[Ended],
    *,
    watched: Sequence[End],
    joined: JoinedGroups | None = None,
    ensured: Collection[str] = (),
) -> Aftermath:
    """Count ends in gates, then in groups. A group whose last jobs died along is ended by one of
    ``ended``, if that is a member of it.
    """
    if watched:
        session.drive(following.count(watched))
    if following.stirred:
        session.stirred = True
    if following.released:
        session.released = True
    fallen = [Ended(each.id, each.group_id, "dead", each.redrives) for each, _ in following.fallen]
    closed = groups.count(session, [*fallen, *ended], joined, ensured)
    return Aftermath(closed.done, closed.rows, following.fallen)
