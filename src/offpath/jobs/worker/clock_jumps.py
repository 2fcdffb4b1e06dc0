"""The machine's clock is set: leases that are kept by it look old, and prove nothing for a while.

Intervals are measured by the monotonic clock, which nobody sets. Where a store keeps its leases by
the machine's date (SQLite, memory), a clock that is set forward makes every lease expired at once:
the living need a time to renew them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offpath.runtime.clock import Clock

LEAST = 1.0
"""Seconds by which the two clocks must differ at once; less is the slow correction of a clock."""


class Jumps:
    """Notices that the date has moved and the time has not."""

    def __init__(self, clock: Clock, *, grace: float) -> None:
        self._clock = clock
        self._grace = grace
        self._apart = self._now_apart()
        self._until = -math.inf

    def recent(self) -> bool:
        """True if the clock was set within the grace. To be asked now and then."""
        apart = self._now_apart()
        if abs(apart - self._apart) > LEAST:
            self._until = self._clock.monotonic() + self._grace
        # Anew each time, or the slow correction of a clock would add up to a jump.
        self._apart = apart
        return self._clock.monotonic() < self._until

    def _now_apart(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()
