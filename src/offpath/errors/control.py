"""Control flow: what a handler raises on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.errors.refusals import OffpathError

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class ControlFlow(OffpathError):
    """Raised by handlers on purpose; never an accident."""

    code = "control_flow"


class Snooze(ControlFlow):
    """Raise in a handler: run this job again later. The attempt does not count.

    Give ``delay`` (seconds or timedelta from now) or ``until`` (an aware datetime); ``until`` wins.
    May be raised any number of times.
    """

    code = "snooze"

    def __init__(
        self,
        delay: float | timedelta = 0.0,
        *,
        until: datetime | None = None,
        reason: str = "snoozed",
    ) -> None:
        super().__init__(reason)
        self.delay = delay
        self.until = until
        self.reason = reason


class CoolDown(Snooze):
    """Raise in a handler whose service said "too many requests": run this job again after
    ``delay`` seconds (its ``Retry-After``), and start no job of the same limit key before that, on
    any worker. The attempt does not count. Without a limit it is a plain :class:`Snooze`; of
    several limits the one that was named first is meant.
    """

    code = "cool_down"

    def __init__(self, delay: float | timedelta, *, reason: str = "cool_down") -> None:
        super().__init__(delay, reason=reason)


class RetryAfter(ControlFlow):
    """Raise in a handler: this attempt has failed, and the next one comes ``delay`` (seconds or
    timedelta) later in place of the policy's wait. Unlike a :class:`Snooze` it counts.

    ``attempts`` takes the place of the policy's number of runs for this decision. ``__cause__`` is
    recorded as what failed: ``raise RetryAfter(60) from error``. Where no attempt is left the job
    is dead.
    """

    code = "retry_after"

    def __init__(
        self,
        delay: float | timedelta,
        *,
        attempts: int | None = None,
        reason: str = "to be tried again",
    ) -> None:
        super().__init__(reason)
        self.delay = delay
        self.attempts = attempts
        self.reason = reason


class Abort(ControlFlow):
    """Raise in a handler: dead now, whatever the retry policy. ``__cause__`` is kept."""

    code = "abort"

    def __init__(self, reason: str = "aborted") -> None:
        super().__init__(reason)
        self.reason = reason
