"""Counting the open jobs of groups.

A lone job is its own group and has no row; the row comes with the second job. Counting is the
last write of a transition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

Ended = tuple[str, str]
"""The id and the group of a job that has ended."""


def count(
    session: Session,
    ended: Iterable[Ended],
    added: Counter[str] | None = None,
    were_open: Collection[str] = (),
) -> set[str]:
    """Count jobs that ended out of their groups, and added ones in.

    ``were_open`` are the ids of jobs that were open before this transition: a root among them
    counts as open when its group gets a row now. Returns the ids of the jobs that ended their
    group: the last of each group, in the order given.
    """
    last = {group: job for job, group in ended}
    changes = Counter(added or ())
    changes.subtract(group for _, group in ended)
    if added:
        bases = [(group, 1 if group in were_open else None) for group in added]
        session.run(SQL["group_ensure"](groups=batch(bases)))
    if not changes:
        return set()
    rows = session.run(SQL["group_change"](changes=batch(sorted(changes.items()))))
    still_open: dict[str, int] = {group: number for group, number in rows}  # noqa: C416 - typed rows
    return {job for group, job in last.items() if not still_open.get(group)}


def reopen(session: Session, groups: Iterable[str]) -> None:
    """Count jobs in that are open again."""
    changes = sorted(Counter(groups).items())
    if changes:
        session.run(SQL["group_change"](changes=batch(changes)))


def forget(session: Session, groups: Collection[str]) -> None:
    """Remove the rows of groups that have no job any more."""
    if groups:
        session.run(SQL["group_forget"](groups=batch(sorted(groups))))
