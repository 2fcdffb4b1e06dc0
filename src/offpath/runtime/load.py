"""The load of this process, as the system accounts for it: processor time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_LEAST: Final = 1.0
"""Seconds of which a share of processor time is told: of less it says nothing."""


def resident() -> int | None:
    """The bytes of memory that this process has; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


class ProcessMeter:
    """Tells the share of one core that the process took between two looks. For any thread."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        spent: Callable[[], float] = time.process_time,
        memory: Callable[[], int | None] = resident,
    ) -> None:
        self._monotonic = monotonic
        self._spent = spent
        self._memory = memory
        self._before = (monotonic(), spent())
        self._share: float | None = None

    def share(self) -> float | None:
        """The share since the look before, 1.0 for a whole core; None in the first second."""
        now, before = self._monotonic(), self._before
        if (passed := now - before[0]) >= _LEAST:
            spent = self._spent()
            # One assignment: two threads that ask at once tell nearly the same.
            self._before = (now, spent)
            self._share = max(spent - before[1], 0.0) / passed
        return self._share

    def memory(self) -> int | None:
        """The bytes that it has now."""
        return self._memory()
