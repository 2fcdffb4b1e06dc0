"""The pace of loops: how long they rest, and the moments at which many of them turn at once."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

_EARLY: Final = 0.001
"""Seconds by which a timer may fire before its moment, and is taken as if it had not."""
_LEAST: Final = 0.4
"""The share of its interval that a loop rests at least: one whose turns take long gets no rest by
the moments alone."""


class Moments(Struct, frozen=True, kw_only=True):
    """Moments at which the loops of a worker turn together.

    A process that is woken for each loop by itself pays for it a dozen times a second, although
    most turns find nothing to do. The phase is a worker's own, so a fleet does not look in step.
    """

    every: float
    """Seconds between two of them."""
    phase: float = 0.0

    def rest(self, now: float, interval: float) -> float:
        """Seconds until the last of them that comes within ``interval``."""
        if interval < self.every:
            return interval
        beats = math.floor((now + interval - self.phase + _EARLY) / self.every)
        until = beats * self.every + self.phase - now
        return min(max(until, interval * _LEAST), interval)


class Pace(Struct, frozen=True, kw_only=True):
    """The pace of a loop, in seconds."""

    interval: float
    """The longest rest between two turns when nothing wakes it."""
    first_backoff: float = 0.1
    """Wait after a first failure; doubled by each further one."""
    longest_backoff: float = 5.0
    jitter: float = 0.1
    """Share by which a rest is shortened at random, so that a fleet does not poll in step."""
    moments: Moments | None = None
    """The moments at which the loops beside it turn, too: then a rest has no jitter of its own."""

    def rest(self, asked: float | None, chance: float, now: float) -> float:
        """Seconds to rest when the turn asked for so many; ``chance`` is from 0 to 1."""
        if asked is not None:
            return max(0.0, min(asked, self.interval))
        if self.moments is not None:
            return self.moments.rest(now, self.interval)
        return self.interval * (1 - self.jitter * chance)

    def backoff(self, failures: int, chance: float) -> float:
        """Seconds to wait after so many failures in a row: half of it certain, half chance."""
        full = self.first_backoff * 2.0 ** min(failures - 1, 30)
        return min(full, self.longest_backoff) * (0.5 + 0.5 * chance)
