"""Ends that wait for somebody else's lock in the store: tried again by themselves, now and then."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.values.run import Run
    from offpath.model.settlement import Settlement

RETRY = 1.0
"""Seconds between two tries."""


class Locked:
    """The ends that wait for locked rows, in the order in which they came."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waiting: deque[tuple[float, Run, Settlement]] = deque()

    def __len__(self) -> int:
        """The number of ends."""
        return len(self._waiting)

    @property
    def oldest(self) -> Run | None:
        """The one that has been tried longest ago."""
        return self._waiting[0][1] if self._waiting else None

    def add(self, run: Run, settlement: Settlement) -> None:
        """Have one wait for its next try."""
        # At the end of the line, so one row that stays locked does not keep the others from a try.
        self._waiting.append((self._monotonic() + RETRY, run, settlement))

    def due(self) -> list[tuple[Run, Settlement]]:
        """The ends to be tried now; they wait here no longer."""
        now = self._monotonic()
        found = []
        while self._waiting and self._waiting[0][0] <= now:
            _, run, settlement = self._waiting.popleft()
            found.append((run, settlement))
        return found

    @property
    def due_in(self) -> float | None:
        """Seconds until the next is to be tried; None when there is none."""
        return max(self._waiting[0][0] - self._monotonic(), 0.0) if self._waiting else None
