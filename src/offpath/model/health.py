"""Health is progress: what a loop's facts, and the age of waiting work, amount to.

Pure: whoever looks hands over ages by his own clock, so a loop that hangs cannot vouch for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.model.tally import Verdict

BUDGET = 3
"""Failed or degraded turns in a row that a loop may have by default."""
LEAST_WINDOW = 60.0
"""Seconds: no loop's last success is too old before, unless it asks for less."""
PATIENCE = 3
"""Intervals in which a slow loop must have succeeded once, by default."""


def window_of(interval: float, window: float | None = None) -> float:
    """How old a loop's last success may be: ``window``, or the larger of 60 s and 3 intervals."""
    return max(LEAST_WINDOW, PATIENCE * interval) if window is None else window


class Condition(StrEnum):
    """What a loop's facts amount to."""

    HEALTHY = "healthy"
    STARTING = "starting"
    """It has had no success yet, and is within its window: neither well nor ill."""
    UNHEALTHY = "unhealthy"


class LoopReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A loop as one who looks from outside judges it. Ages and durations in seconds."""

    name: str
    condition: Condition
    state: str
    """What it does: new, working, resting, failing, dead, stopped."""
    critical: bool = True
    """Whether its health is the worker's."""
    last_success_age: float | None = None
    """None: it never succeeded."""
    consecutive_failures: int = 0
    """Turns in a row that failed or were degraded."""
    iterations: int = 0
    restarts: int = 0
    working_for: float | None = None
    """How long its present turn has been going on."""
    reason: str | None = None
    """Why it is not healthy, in one line."""

    @property
    def healthy(self) -> bool:
        """Whether it is well: it has succeeded, and lately."""
        return self.condition is Condition.HEALTHY


def judge(
    *,
    success_age: float | None,
    waited: float,
    working_for: float | None,
    failures: int,
    budget: int,
    window: float,
    cause: str | None,
) -> tuple[Condition, str | None]:
    """Judge a loop: its condition, and the reason when it is not healthy.

    ``waited`` is how long it could have succeeded: since its last success, or since it was made.
    """
    if failures > budget:
        return Condition.UNHEALTHY, _because(f"{failures} turns in a row failed", cause)
    if waited > window:
        since = "no success yet after" if success_age is None else "no success for"
        busy = f", in one turn for {working_for:.0f} s" if working_for and working_for > 1 else ""
        return Condition.UNHEALTHY, _because(f"{since} {waited:.0f} s{busy}", cause)
    if success_age is None:
        return Condition.STARTING, _because("no success yet", cause)
    return Condition.HEALTHY, None


def _because(what: str, cause: str | None) -> str:
    return what if cause is None else f"{what}: {cause}"


class Gauge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The age of something that waits, against its limit. Seconds."""

    name: str
    age: float | None
    """None: nothing waits."""
    limit: float | None
    """None: it may wait for ever."""

    @property
    def over(self) -> bool:
        """Whether it has waited too long."""
        return self.age is not None and self.limit is not None and self.age > self.limit

    @property
    def reason(self) -> str | None:
        """Why it is over, in one line; None while it is not."""
        if not self.over:
            return None
        return f"{self.name} has waited for {self.age:.0f} s, more than {self.limit:.0f} s"


class SettlementReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the last settlement run of a kind went in one process. It decides over no readiness."""

    kind: str
    period: str
    verdict: Verdict
    started_at: datetime
    attempted: int = 0
    credited: int = 0
    failed: int = 0
    skipped: int = 0
    consecutive_failures: int = 0
    """Runs since the last clean one in that process."""
    cause: str | None = None
    """Why it is not clean, in one line without secrets; None when it is."""

    @property
    def warning(self) -> str | None:
        """What to look at, in one line; None when it was clean."""
        if self.cause is None:
            return None
        return f"settlement run {self.kind} for {self.period} {self.verdict}: {self.cause}"


class WorkerReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker says of itself, in each heartbeat and to who asks its probe."""

    loops: tuple[LoopReport, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    problems: tuple[str, ...] = ()
    """What is wrong with the worker beside its loops and gauges."""
    running: dict[str, int] = {}
    """Jobs in its hand, by task."""
    settlements: tuple[SettlementReport, ...] = ()
    """The last settlement run of each kind that ran in its process."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody should look at although work moves, one line each."""
        return tuple(one for run in self.settlements if (one := run.warning))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not ready, one line each; none when it is."""
        return (*self.problems, *_ill(self.loops), *(one for g in self.gauges if (one := g.reason)))

    @property
    def ready(self) -> bool:
        """Whether work moves: every critical loop is healthy, and nothing has waited too long."""
        return not self.reasons


def _ill(loops: Iterable[LoopReport]) -> Iterable[str]:
    return (
        f"loop {loop.name}: {loop.reason or loop.condition}"
        for loop in loops
        if loop.critical and not loop.healthy
    )
