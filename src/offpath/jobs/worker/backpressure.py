"""Backpressure: not taking jobs for a while, because somebody says so or too many fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypeGuard

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.runtime.seats import asked

if TYPE_CHECKING:
    from offpath.jobs.values.offers import Backpressure, WorkerLoad
    from offpath.runtime.clock import Clock

FIRST_BACKOFF, LONGEST_BACKOFF = 0.25, 4.0
"""Seconds for which nothing is taken after the hook failed: doubled by each further failure."""


class Brake:
    """Asks the hook, and remembers until when nothing is to be taken."""

    def __init__(
        self,
        hook: Backpressure | None,
        load: Callable[[], WorkerLoad],
        clock: Clock,
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._hook = hook
        self._load = load
        self._clock = clock
        self._report = report
        self._until = -math.inf
        self._failures = 0

    async def rest(self) -> float:
        """Seconds for which nothing is to be taken; 0: go on.

        The hook is asked when no pause is under way. One that fails is reported, and nothing is
        taken for a growing while: it may be what protects somebody.
        """
        if self._hook is None:
            return 0.0
        left = self._until - self._clock.monotonic()
        if left > 0:
            return left
        seconds = await self._asked(self._hook)
        if seconds > 0:
            self._until = self._clock.monotonic() + seconds
        return seconds

    async def _asked(self, hook: Backpressure) -> float:
        try:
            seconds = _seconds(await asked(hook, self._load()))
        except Exception as error:  # noqa: BLE001 - reported; the worker goes on
            self._report(error, "backpressure")
            self._failures += 1
            # The exponent is bounded first: a float has no room for a thousand doublings.
            return min(FIRST_BACKOFF * 2.0 ** min(self._failures - 1, 30), LONGEST_BACKOFF)
        self._failures = 0
        return seconds


def _seconds(answer: object) -> float:
    if answer is None:
        return 0.0
    if isinstance(answer, timedelta):
        return answer.total_seconds()
    if _number(answer):
        return float(answer)
    msg = f"backpressure must return seconds, a timedelta or None, not {answer!r}"
    raise TypeError(msg)


def _number(value: object) -> TypeGuard[float]:
    # Python counts True as 1, and a hook that returns it has named no time.
    return isinstance(value, int | float) and value is not True and math.isfinite(value)


class AdaptiveDelay:
    """A ``backpressure`` that slows a worker down while attempts fail.

    It keeps a delay between two leases, in seconds. It looks at the attempts that ended since its
    last look ``every`` seconds after the first lease that it let pass since then. When more than
    ``max_fail_rate`` of them failed, the delay is multiplied by ``factor`` (it is at least
    ``base``, at most ``max``), once, however long ago the last look was. Else it shrinks by
    ``step`` (``base`` by default) for each ``every`` that has passed, down to ``min``; where
    nothing ended, nothing failed. So how fast it reacts depends on time, and not on how often the
    worker looks for jobs.

    Every failed attempt counts: see :attr:`WorkerLoad.failed`. ``task`` names the task, or the
    tasks, whose attempts count; None is all. Use one for each worker: it remembers.
    """

    def __init__(
        self,
        *,
        base: float = 0.1,
        factor: float = 2.0,
        step: float | None = None,
        max: float = 30.0,  # noqa: A002 - the keyword's plain name
        min: float = 0.0,  # noqa: A002 - as above
        max_fail_rate: float = 0.0,
        task: str | Collection[str] | None = None,
        every: float = 1.0,
    ) -> None:
        self._base = _positive(base, "base")
        self._factor = _positive(factor, "factor", least=1.0)
        self._step = self._base if step is None else _positive(step, "step")
        self._most = _positive(max, "max")
        self._least = checks.seconds(min, "min")
        self._every = _positive(every, "every")
        if self._least > self._most:
            raise InvalidArgument(f"min={min!r} is more than max={max!r}")
        if not _number(max_fail_rate) or not 0 <= max_fail_rate < 1:
            raise InvalidArgument(f"max_fail_rate must be from 0 to below 1, not {max_fail_rate!r}")
        self._max_fail_rate = max_fail_rate
        self._tasks = None if task is None else {task} if isinstance(task, str) else set(task)
        self._counted = (0, 0)
        self._looked_at: float | None = None
        self._leased_at = -math.inf
        self._first_leased_at: float | None = None
        """The time when the first lease since the last look was let pass."""
        self.delay = self._least
        """The present delay between two leases, in seconds."""

    def __repr__(self) -> str:
        """Show the present delay."""
        return f"<AdaptiveDelay {self.delay:g} s>"

    def __call__(self, load: WorkerLoad) -> float:
        """Seconds until the next lease; 0 when it may be made."""
        periods = self._periods(load.at)
        if periods:
            self._first_leased_at = None
            self.look(self._sum(load.succeeded), self._sum(load.failed), periods)
        left = self._leased_at + self.delay - load.at
        if self.delay > 0 and left > 0:
            return left
        self._leased_at = load.at
        if self._first_leased_at is None:
            self._first_leased_at = load.at
        return 0.0

    def look(self, succeeded: int, failed: int, periods: int = 1) -> float:
        """Take in how many attempts ended so far, so many ``every`` later; the new delay."""
        before = self._counted
        if succeeded < before[0] or failed < before[1]:  # another worker's counts
            before = (0, 0)
        self._counted = (succeeded, failed)
        good, bad = succeeded - before[0], failed - before[1]
        if bad and bad / (good + bad) > self._max_fail_rate:
            self.delay = min(self._most, max(self._base, self.delay * self._factor))
        else:
            self.delay = max(self._least, self.delay - self._step * periods)
        return self.delay

    def _periods(self, now: float) -> int:
        if self._looked_at is None or now < self._looked_at:
            self._looked_at = now
            return 1
        since = self._first_leased_at
        if since is None or now - since < self._every:
            return 0
        periods = int((now - self._looked_at) / self._every)
        self._looked_at = now
        return periods

    def _sum(self, counts: Mapping[str, int]) -> int:
        if self._tasks is None:
            return sum(counts.values())
        return sum(count for task, count in counts.items() if task in self._tasks)


def _positive(value: float, name: str, *, least: float = 0.0) -> float:
    if not _number(value) or value <= 0 or value < least:
        said = f"at least {least:g}" if least else "more than 0"
        raise InvalidArgument(f"{name} must be {said}, not {value!r}")
    return float(value)
