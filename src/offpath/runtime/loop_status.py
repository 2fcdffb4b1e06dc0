"""The facts of a loop when somebody looks at it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.model.health import LoopReport, judge


class LoopState(StrEnum):
    """The state of a loop."""

    NEW = "new"
    WORKING = "working"
    RESTING = "resting"
    FAILING = "failing"
    """Its last turn failed; it waits before the next."""
    DEAD = "dead"
    """Its task ended although nobody stopped it."""
    STOPPED = "stopped"


class LoopStatus(Struct, frozen=True, kw_only=True):
    """A loop's facts, as they are when somebody looks. Ages and durations in seconds."""

    name: str
    state: LoopState
    iterations: int
    failures: int
    """The number of the iterations that failed or were degraded."""
    consecutive_failures: int
    """The number of the last iterations in a row that did; empty ones do not count."""
    mostly_bad: str | None
    """The reason why too many of its last turns with rows were bad; None while they were not."""
    last_success: datetime | None
    last_failure: datetime | None
    last_error: str | None
    """Type name of the last error; its text may hold secrets."""
    cause: str | None
    """The reason why the last turn failed or was degraded, until one that did something."""
    outcomes: dict[str, int]
    """The number of turns by verdict."""
    success_age: float | None
    """Since the last success; None: there was none."""
    waited: float
    """Since the last success, otherwise since it was made."""
    unturned: float
    """Since it last did what it is for, also if rows failed in it; otherwise since it was made."""
    working_for: float | None
    """The time that the present turn has been going on; None between turns."""
    deaths: int
    """The number of times that it died and had to be started again."""
    budget: int
    window: float
    critical: bool
    next_in: float | None = None
    """Until its next turn, unless something wakes it; None while it works."""
    skipped: str | None = None
    """The reason why its last turn did nothing at all; None where it did what it is for."""

    def judged(self) -> LoopReport:
        """The loop's health by these facts."""
        condition, reason = judge(
            success_age=self.success_age,
            waited=self.waited,
            working_for=self.working_for,
            failures=self.consecutive_failures,
            budget=self.budget,
            window=self.window,
            cause=self.cause,
            mostly_bad=self.mostly_bad,
        )
        return LoopReport(
            name=self.name,
            condition=condition,
            state=self.state,
            critical=self.critical,
            last_success_age=_rounded(self.success_age),
            consecutive_failures=self.consecutive_failures,
            iterations=self.iterations,
            restarts=self.deaths,
            fresh=self.unturned <= self.window,
            working_for=_rounded(self.working_for),
            reason=reason,
            next_in=_rounded(self.next_in),
            skipped=self.skipped,
        )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
