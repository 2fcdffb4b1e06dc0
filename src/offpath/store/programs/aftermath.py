"""The ends of jobs, and what follows from them: gates that count them, groups that are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from offpath.model.changes import ChangedJob


class End(NamedTuple):
    """A job that has just ended without success, as its gates and its group see it."""

    id: str
    group_id: str
    grouped: bool
    """True if a row of its group counts it."""
    watched: bool
    """True if a gate may watch it."""
    redrives: int


class Overdue(NamedTuple):
    """Ends and gates that were left behind, and are caught up with after the ends at hand."""

    uncounted: Mapping[str, bool]
    """Watched jobs that have ended uncounted, and whether they succeeded."""
    fired: Sequence[str]
    """Gates that have fired and hold a job still."""
    limit: int
    """The number of gates that are looked for besides, at most."""


class Aftermath(NamedTuple):
    """The outcome of some ends."""

    done: Collection[str]
    """The ids of the ended jobs that ended their groups."""
    deaths: Sequence[tuple[ChangedJob, str]]
    """Jobs that died along at gates, each with the id of the job that was the cause."""
    held: Collection[str] = frozenset()
    """Jobs that were given back and are held, since their limit is closed."""

    def along(self, job: str) -> tuple[ChangedJob, ...]:
        """The jobs that died because of this one."""
        return tuple(each for each, cause in self.deaths if cause == job)

    def all_along(self) -> list[ChangedJob]:
        """Every job that died along."""
        return [each for each, _ in self.deaths]
