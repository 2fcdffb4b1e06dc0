"""Jobs that a worker does not want: they are given back, and nothing counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.jobs.values.offers import Offer
from offpath.model.settlement import Released, Snoozed
from offpath.runtime.seats import called

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.values.offers import Accept
    from offpath.jobs.values.run import Run
    from offpath.runtime.clock import Clock

QUIET = 30.0
"""Seconds for which a declined job is not offered again."""
PASSED_OVER = 1_000
"""Most declined jobs that this worker's leases pass over: their ids go along with each lease."""
SHORTEST, LONGEST = 0.25, 5.0
"""Seconds for which a job is put off that is declined beyond those. They are doubled by each time
it comes back, while other jobs of its task are accepted; otherwise the task rests in this worker,
for as long."""
REMEMBERED = 10_000
"""Most jobs that are remembered to have been put off."""


class _Declined(Struct):
    times: int
    asked_at: float


class _Rest(Struct):
    rounds: int
    until: float


class JobSelection:
    """The jobs that one worker runs. Belongs to one event loop.

    What it declines is given back as it was, free for any other worker at once, and its own leases
    pass over it for a while. Of those that are too many for that, a task of which nothing is
    accepted is not asked for again for a while; where some are accepted and some are not, the
    declined ones are put off for longer and longer instead.
    """

    def __init__(
        self,
        accept: Accept | None,
        clock: Clock,
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._accept = accept
        self._clock = clock
        self._report = report
        self._passed_over: dict[str, float] = {}  # id -> when it was declined, in that order
        self._declined: dict[str, _Declined] = {}
        self._resting: dict[str, _Rest] = {}
        self._accepted_at: dict[str, float] = {}

    def resting(self) -> set[str]:
        """Tasks that are not to be asked for now."""
        if not self._resting:
            return set()
        now = self._clock.monotonic()
        return {task for task, rest in self._resting.items() if now < rest.until}

    def passed_over(self) -> tuple[str, ...]:
        """Jobs that are not to be taken now: they were declined lately."""
        if self._passed_over:
            self._offer_again(self._clock.monotonic())
        return tuple(self._passed_over)

    def __len__(self) -> int:
        """The number of declined jobs that are remembered."""
        return len(self._declined) + len(self._passed_over)

    def put_off(self, run: Run) -> float | None:
        """For how many seconds a job is given back (0: it is due for others at once); None when it
        is to be run.

        A predicate that raises is reported, and the job given back: others may know better.
        """
        if self._accept is None:
            return None
        now = self._clock.monotonic()
        self._offer_again(now)
        # A lease that was on its way as it was declined may bring it again: it goes to the end.
        self._passed_over.pop(run.job.id, None)
        # One that is not remembered counts as asked about long ago, so it is asked about now.
        known = self._declined.pop(run.job.id, None) or _Declined(times=0, asked_at=now - QUIET)
        if now - known.asked_at >= QUIET:
            # Asked anew only after the quiet time: a predicate of the user's is not called for each
            # lease.
            if self._wanted(self._accept, run):
                self._accepted_at[run.job.task] = now
                self._resting.pop(run.job.task, None)
                return None
            known.asked_at = now
        if len(self._passed_over) < PASSED_OVER:
            self._passed_over[run.job.id] = now
            return 0.0
        return self._delayed(run, known, now)

    def _delayed(self, run: Run, known: _Declined, now: float) -> float:
        """One more than can be passed over."""
        known.times += 1
        self._declined[run.job.id] = known  # the last one in: the oldest are forgotten first
        if len(self._declined) > REMEMBERED:
            del self._declined[next(iter(self._declined))]
        if now - self._accepted_at.get(run.job.task, -math.inf) < LONGEST:
            return _grown(known.times)
        self._rest(run.job.task, now)
        return SHORTEST

    def _offer_again(self, now: float) -> None:
        """Forget those that were declined long ago."""
        while self._passed_over:
            first = next(iter(self._passed_over))
            if now - self._passed_over[first] < QUIET:
                return
            del self._passed_over[first]

    def _rest(self, task: str, now: float) -> None:
        """Ask for no job of this task for a while; all that one lease brought count once."""
        rest = self._resting.setdefault(task, _Rest(rounds=0, until=now))
        if now >= rest.until:
            rest.rounds += 1
            rest.until = now + 2 * _grown(rest.rounds)

    def _wanted(self, accept: Accept, run: Run) -> bool:
        try:
            return bool(called(accept, Offer(run)))
        except Exception as error:  # noqa: BLE001 - reported; the job is given back
            self._report(error, "accept")
            return False


def declined(delay: float) -> Snoozed | Released:
    """The end of an attempt at a job that is not wanted here."""
    return Snoozed(delay=delay, reason="declined") if delay > 0 else Released(reason="declined")


def _grown(times: int) -> float:
    # The exponent is bounded first: a float has no room for a thousand doublings.
    return float(min(SHORTEST * 2.0 ** min(times - 1, 30), LONGEST))
