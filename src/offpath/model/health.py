"""Health is progress: what a loop's facts, and the age of waiting work, amount to.

Pure: whoever looks hands over ages by their own clock, so a loop that hangs cannot vouch for
itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.model.deaths import Ends
from offpath.model.tally import Verdict

BUDGET = 3
"""Failed or degraded turns in a row that a loop may have by default."""
LEAST_WINDOW = 60.0
"""Seconds: no loop's last success is too old before, unless it asks for less."""
PATIENCE = 3
"""Intervals in which a slow loop must have succeeded once, by default."""
RECENT = 20
"""Turns with rows of which a loop's bad share is judged."""
ENOUGH = 8
"""Turns with rows that there must be before their bad share says anything."""
BAD_SHARE = 0.5
"""Share of bad turns above which a loop is unhealthy, though a good one comes now and then."""
CLEARED = 3
"""Clean turns in a row after which what went wrong before is over."""


def window_of(interval: float, window: float | None = None) -> float:
    """The age that a loop's last success may have: ``window``, or the larger of 60 s and 3
    intervals.
    """
    return max(LEAST_WINDOW, PATIENCE * interval) if window is None else window


class Condition(StrEnum):
    """The condition that a loop's facts amount to."""

    HEALTHY = "healthy"
    STARTING = "starting"
    """It has had no success yet, and is within its window: neither well nor ill."""
    UNHEALTHY = "unhealthy"


class Streak(Struct, frozen=True):
    """The results of a loop's last turns with rows: those in which nothing was due are not among
    them.

    An immutable value, so that who judges may read it from any thread.
    """

    in_a_row: int = 0
    """Bad turns since the last clean one."""
    recent: tuple[bool, ...] = ()
    """The last turns, the newest last: True is a clean one."""

    def after(self, *, clean: bool) -> Streak:
        """The streak with one more turn."""
        recent = (*self.recent[1 - RECENT :], clean)
        if recent[-CLEARED:] == (True,) * CLEARED:
            return Streak()
        return Streak(in_a_row=0 if clean else self.in_a_row + 1, recent=recent)

    @property
    def bad(self) -> int:
        """The number of the last turns that were bad."""
        return self.recent.count(False)

    @property
    def mostly_bad(self) -> str | None:
        """The reason why too many turns were bad lately, in one line; None while they were not."""
        turns = len(self.recent)
        if turns < ENOUGH or self.bad <= BAD_SHARE * turns:
            return None
        return f"{self.bad} of the last {turns} turns with rows went badly"


class LoopReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A loop as one who looks from outside judges it. Ages and durations in seconds."""

    name: str
    condition: Condition
    state: str
    """The state of the loop: new, working, resting, failing, dead, stopped."""
    critical: bool = True
    """True if its health is the worker's."""
    last_success_age: float | None = None
    """None: it never succeeded."""
    consecutive_failures: int = 0
    """Turns in a row that failed or were degraded; those in which nothing was due do not count."""
    iterations: int = 0
    restarts: int = 0
    fresh: bool = True
    """True if it did what it is for within its window: one whose rows fail does, one that hangs, or
    that the store is away from, does not."""
    working_for: float | None = None
    """The time that its present turn has been going on."""
    reason: str | None = None
    """The reason why it is not healthy, in one line."""
    next_in: float | None = None
    """Until its next turn, unless something wakes it; None while it works."""
    skipped: str | None = None
    """The reason why its last turn did nothing at all, as that another worker leads it."""

    @property
    def healthy(self) -> bool:
        """True if it is well: it has succeeded, and lately."""
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
    mostly_bad: str | None = None,
) -> tuple[Condition, str | None]:
    """Judge a loop: its condition, and the reason when it is not healthy.

    ``waited`` is how long it could have succeeded: since its last success, or since it was made.
    ``mostly_bad`` says why too many of its last turns were bad, if they were.
    """
    if failures > budget:
        return Condition.UNHEALTHY, _because(f"{failures} turns in a row failed", cause)
    if mostly_bad is not None:
        return Condition.UNHEALTHY, _because(mostly_bad, cause)
    if waited > window:
        since = "no success yet after" if success_age is None else "no success for"
        busy = f", in one turn for {working_for:.0f} s" if working_for and working_for > 1 else ""
        return Condition.UNHEALTHY, _because(f"{since} {waited:.0f} s{busy}", cause)
    if success_age is None:
        return Condition.STARTING, _because("no success yet", cause)
    return Condition.HEALTHY, None


def _because(what: str, cause: str | None) -> str:
    return what if cause is None else f"{what}: {cause}"


class AgeGauge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The age of something that waits, against its limit. Seconds."""

    name: str
    age: float | None
    """None: nothing waits."""
    limit: float | None
    """None: it may wait for ever."""
    router: str | None = None
    """The router whose lag it is."""
    closed: bool = False
    """True if somebody has closed the gate that it waits at."""

    @property
    def over(self) -> bool:
        """True if it has waited too long."""
        return self.age is not None and self.limit is not None and self.age > self.limit

    @property
    def reason(self) -> str | None:
        """The reason why it is over, in one line; None while it is not."""
        if not self.over:
            return None
        return f"{self.name} has waited for {self.age:.0f} s, more than {self.limit:.0f} s"


class SettlementReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last settlement run of a kind in one process. It does not decide over readiness."""

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
    """The reason why it is not clean, in one line without secrets; None when it is."""

    @property
    def warning(self) -> str | None:
        """The thing to look at, in one line; None when it was clean."""
        if self.cause is None:
            return None
        return f"settlement run {self.kind} for {self.period} {self.verdict}: {self.cause}"


class ProcessLoad(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The load of a worker's process. It tells, and decides over nothing."""

    cpu: float | None = None
    """The share of one core since the report before; 2.0 for two whole ones."""
    memory: int | None = None
    """Bytes that it has; None where the system does not tell."""
    loop_lag: float | None = None
    """Seconds that its event loop took for the last sign of life."""


class WorkerReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The report of a worker on itself, in each heartbeat and in the answers of its probe."""

    loops: tuple[LoopReport, ...] = ()
    gauges: tuple[AgeGauge, ...] = ()
    """The work that waits in the store, whoever should take it: told, and judged for the whole
    fleet.
    """
    problems: tuple[str, ...] = ()
    """The faults of the worker beside its loops and gauges."""
    running: dict[str, int] = {}
    """Jobs in its hand, by task."""
    settlements: tuple[SettlementReport, ...] = ()
    """The last settlement run of each kind that ran in its process."""
    ends: dict[str, Ends] = {}
    """The ends in its process in the last quarter of an hour, by label, where some of it died."""
    findings: tuple[str, ...] = ()
    """Findings of the store that nobody has accepted, as it last saw them."""
    crowded: tuple[str, ...] = ()
    """Kinds of names that its metrics count together from the cap on, one line each."""
    quiet: bool = False
    """True if an operator has asked it to take no more jobs."""
    load: ProcessLoad | None = None
    """None of a worker of a version before this."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for people although its loops go well, one line each."""
        runs = (one for run in self.settlements if (one := run.warning))
        waiting = (one for gauge in self.gauges if (one := gauge.reason))
        return (*waiting, *self.findings, *runs, *self.crowded)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reason why it is not ready, one line each; none when it is."""
        # Nothing that others share: a letter of last week must not keep the worker out that is to
        # mend it.
        return (*self.problems, *_ill(self.loops))

    @property
    def ready(self) -> bool:
        """True if every critical loop is healthy; what waits is for the fleet's health to judge."""
        return not self.reasons


def _ill(loops: Iterable[LoopReport]) -> Iterable[str]:
    return (
        f"loop {loop.name}: {loop.reason or loop.condition}"
        for loop in loops
        if loop.critical and not loop.healthy
    )
