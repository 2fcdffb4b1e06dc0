"""Amendments: changes to the terms of jobs that wait."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.job import BlockReason, JobRecord, JobState

AMENDABLE: Final = frozenset({JobState.BLOCKED, JobState.QUEUED})
"""The states of jobs that an amendment may change."""


class Amendment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New terms of jobs that wait; None leaves a term as it is."""

    priority: int | None = None
    queue: str | None = None
    run_at: datetime | None = None
    deadline: datetime | None = None
    """The time until which it must have ended. A redrive gives the job its own deadline again."""

    @property
    def of_queued(self) -> bool:
        """True if only a queued job can take it: a blocked one gets its place when it is let go."""
        return self.queue is not None or self.run_at is not None

    def fits(self, job: JobRecord) -> bool:
        """True if a job can take it as it is now."""
        if job.state is JobState.QUEUED:
            return True
        if job.state is not JobState.BLOCKED or self.of_queued:
            return False
        # the end of the wait for a signal was computed from the deadline that the job had then
        return self.deadline is None or job.reason != BlockReason.SIGNAL.value


def checked_amendment(given: Amendment, now: datetime, prefix: str = "") -> Amendment:
    """An amendment with times in UTC. Raises ``InvalidArgument`` for one that cannot be meant.

    ``prefix`` stands before the names of its fields where their caller calls them so.
    """
    if given == Amendment():
        names = ", ".join(prefix + name for name in Amendment.__struct_fields__)
        raise InvalidArgument(f"nothing is changed: give one of {names}")
    most = checks.MAX_PRIORITY
    if given.priority is not None:
        checks.integer(given.priority, f"{prefix}priority", least=-most, most=most)
    if given.queue is not None:
        checks.name(given.queue, f"{prefix}queue")
    run_at = None if given.run_at is None else checks.aware(given.run_at, f"{prefix}run_at")
    deadline = None
    if given.deadline is not None:
        deadline = checks.aware(given.deadline, f"{prefix}deadline")
        if deadline <= max(now, run_at or now):
            late = "now" if run_at is None or run_at <= now else f"{prefix}run_at"
            raise InvalidArgument(
                f"{prefix}deadline must be later than {late}, not {deadline.isoformat()}: cancel "
                "jobs that must not run any more"
            )
    return Amendment(priority=given.priority, queue=given.queue, run_at=run_at, deadline=deadline)
