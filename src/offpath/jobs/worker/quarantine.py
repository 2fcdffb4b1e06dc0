"""Jobs that the next death of their worker would bury run one at a time.

A job that kills its worker takes along what else the worker holds, and is handed out again
together with it. Deliveries alone would count all of them to death. So of the jobs whose next loss
is their last a worker holds only one, and begins it when the others have been given back: then only
the one that did it dies.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offpath.jobs.worker.running import Run

SHORTEST, LONGEST = 0.1, 10.0
"""Seconds for which the others are put off: as long as the one inside has been held already."""


class Quarantine:
    """Who of one worker's suspects may run. Belongs to one event loop."""

    def __init__(self, max_deliveries: int) -> None:
        # With a limit of one every first loss is the last, and nothing is a suspect before.
        self._last_chance = max(max_deliveries - 1, 1)
        self._inside: Run | None = None
        self._leaving: set[Run] = set()
        self._alone = asyncio.Event()
        self._alone.set()

    def aside(self, run: Run) -> float | None:
        """For how many seconds ``run`` must be given back; None when it may stay."""
        if run.job.losses < self._last_chance:
            return None
        if self._inside is None:
            self._inside = run
            return None
        self._leaving.add(run)
        self._alone.clear()
        return min(max(run.leased_at - self._inside.leased_at, SHORTEST), LONGEST)

    def holds(self, run: Run) -> bool:
        """Whether ``run`` is the suspect that may stay: it is run with nothing else."""
        return run is self._inside

    async def alone(self, run: Run) -> None:
        """Wait, with a suspect, until the store has taken back the others."""
        if run is self._inside:
            await self._alone.wait()

    def let_go(self, run: Run) -> None:
        """Forget a run that is not held any more."""
        if run is self._inside:
            self._inside = None
        elif run in self._leaving:
            self._leaving.discard(run)
            if not self._leaving:
                self._alone.set()
