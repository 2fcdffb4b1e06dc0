"""The terms that were agreed when a job was enqueued and are needed again later."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.group import GroupPolicy
from offpath.model.job import JobState, UniqueClaim
from offpath.model.limit import LimitSpec


class JobTerms(Struct, frozen=True, kw_only=True):
    """The terms of one job."""

    unique: UniqueClaim | None = None
    unique_until: datetime | None = None
    deadline_in: float | None = None
    announce: int = 0
    gated_delay: float | None = None
    """Seconds from the release of its gate; None when its run time is a moment."""
    limit: LimitSpec | None = None
    policy: GroupPolicy = GroupPolicy.SETTLE_ALL

    def in_scope(self, state: JobState, now: datetime) -> bool:
        """True if a job in ``state`` may have its unique key at ``now``."""
        if self.unique is None or state not in self.unique.states:
            return False
        return self.unique_until is None or now < self.unique_until


PLAIN = JobTerms()
