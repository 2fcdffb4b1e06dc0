"""The ends of jobs, and what follows from them: gates that count them, groups that are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from offpath.model.changes import ChangedJob
from offpath.model.job import DeadReason, Failure

KEPT_FAILURES: Final = 50
"""Failures that the history of a job keeps: one that is retried for ever must not grow one for
ever.
"""

_GIVEN_UP: Final = {
    DeadReason.DEADLINE: ("DeadlineExceeded", "its deadline passed while it waited"),
    DeadReason.UNSATISFIABLE: (
        "GateUnsatisfiable",
        "too many of the jobs that its gate watches have failed: redrive those, and it waits again",
    ),
    DeadReason.GATE_TIMEOUT: ("GateTimeout", "its gate had not fired when its time was over"),
}
"""The failure of a job that died of its waiting."""


class FailedAttempt(msgspec.Struct):
    """A failure of a job, as ``add_failures`` takes it."""

    id: str
    delivery: int
    failure: Failure


def given_up(reason: str, attempt: int) -> Failure:
    """The failure of a job that died of its waiting for ``reason``, undated."""
    why = DeadReason(reason)
    kind, message = _GIVEN_UP[why]
    # ``add_failures`` dates it by the store's clock, as it dates all that it writes.
    return Failure(kind=why.value, type=kind, message=message, attempt=attempt)


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
