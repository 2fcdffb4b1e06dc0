"""Automatic redrive: when a dead job may be put back without being asked."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from offpath.model import checks
from offpath.model.job import DeadReason, JobRecord, JobState

_WORTH_IT = (DeadReason.EXHAUSTED, DeadReason.DEADLINE, DeadReason.WORKER_LOST)


class Redrive(Struct, frozen=True, kw_only=True):
    """Put dead jobs back when a worker is idle: each at most ``cap`` times, ever later.

    The n-th redrive of a job comes ``base * factor ** (n - 1)`` seconds after it died, at most
    ``longest``. Jobs that were aborted, or whose input cannot be read, would only die again and
    are left alone unless ``reasons`` names them.
    """

    cap: int = 3
    """The number of times that one job is redriven in its life, operators' redrives included."""
    base: float = 60.0
    factor: float = 4.0
    longest: float = 3600.0
    batch: int = 10
    """At most so many jobs a step, so that fresh work is never far behind."""
    reasons: tuple[DeadReason, ...] = _WORTH_IT

    def due(self, record: JobRecord, now: datetime) -> bool:
        """True if this dead job may be put back at ``now`` (the store's clock)."""
        if record.state is not JobState.DEAD or record.redrives >= self.cap:
            return False
        died = record.finished_at or record.enqueued_at
        return record.reason in self.reasons and now >= died + timedelta(
            seconds=self.pause(record.redrives)
        )

    def pause(self, redrives: int) -> float:
        """Seconds between a job's death and its next redrive, after so many of them."""
        try:
            return min(self.base * self.factor**redrives, self.longest)
        except OverflowError:
            return self.longest


def checked_redrive(policy: Redrive) -> Redrive:
    """The same policy. Raises ``InvalidArgument`` when it has no sense."""
    checks.integer(policy.cap, "redrive cap", least=1, most=1_000_000)
    checks.integer(policy.batch, "redrive batch", least=1, most=1_000)
    checks.number(policy.factor, "redrive factor", least=1.0, most=1e6)
    for name in ("base", "longest"):
        checks.seconds(getattr(policy, name), f"redrive {name}")
    return policy
