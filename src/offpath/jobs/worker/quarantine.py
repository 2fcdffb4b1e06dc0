"""Suspects in a worker's hand: begun when it holds nothing else, and nothing is taken beside them.

Which jobs these are, and how many at once, the store decides (:mod:`offpath.model.suspicion`).
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from offpath.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpath.jobs.values.run import Run
    from offpath.jobs.worker.hand import Hand
    from offpath.model.job import LeasedJob
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

EVERY: Final = 5.0
"""Seconds between two looks for suspects, where nobody said that there is work."""
SOONEST: Final = 0.25
"""Seconds between two looks where work was announced: a rescue may have made suspects."""
PATIENCE: Final = 2.0
"""Seconds for which a worker that runs other jobs leaves suspects to one that runs none."""
AGAIN: Final = 0.5
"""Seconds between two looks whether a set may begin: its jobs may have been cancelled meanwhile."""


class Quarantine:
    """The set of suspects of one worker. Belongs to one event loop."""

    def __init__(self, store: Store, clock: Clock, hand: Hand, max_deliveries: int) -> None:
        self._store = store
        self._clock = clock
        self._hand = hand
        # With a limit of one every first loss is the last, and nothing is a suspect before.
        self._last_chance = max(max_deliveries - 1, 1)
        self._inside: set[Run] = set()
        self._begun: set[Run] = set()
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._looked_at = -math.inf
        self._in_vain = False
        """True if another worker was about to have what there was."""
        self._seen_at: float | None = None
        self._announced = True

    # -- when to ask for some ---------------------------------------------------------------------

    @property
    def occupied(self) -> bool:
        """True if nothing else may be taken. A job that waits for another one lets that one in."""
        return any(run not in self._hand.aside for run in self._inside)

    def announce(self) -> None:
        """Work may be ready, and suspects among it."""
        self._announced = True

    def due_in(self) -> float:
        """Seconds until the store is to be asked for suspects."""
        if self._seen_at is not None and not self._hand and not self._in_vain:
            return 0.0
        rest = SOONEST if self._announced or self._in_vain else EVERY
        return max(self._looked_at + rest - self._clock.monotonic(), 0.0)

    @property
    def may_wait(self) -> bool:
        """True if the last look has shown suspects that wait, or none was made yet."""
        return self._seen_at is not None or self._looked_at == -math.inf

    @property
    def expected(self) -> bool:
        """True if the next look should come sooner than at the next poll."""
        return self._announced or self._seen_at is not None

    def room(self) -> int:
        """The number of suspects to ask for: none as long as they are left to a worker that is
        free.
        """
        now = self._clock.monotonic()
        # A worker that is free begins them at once. One that is busy would have to drain first, so
        # it asks late.
        waited = self._seen_at is not None and now - self._seen_at >= PATIENCE
        return self._hand.capacity if waited or not self._hand else 0

    def looked(self, *, more: bool, taken: int) -> None:
        """Take in whether there were any, and how many of them came."""
        now = self._clock.monotonic()
        self._in_vain = more and not taken and not self._hand
        self._looked_at, self._announced = now, False
        self._seen_at = (self._seen_at or now) if more else None

    # -- those in hand ----------------------------------------------------------------------------

    def suspects(self, job: LeasedJob) -> bool:
        """True if a job that an unanswered lease has brought must be taken for a suspect."""
        return job.losses >= self._last_chance

    def enter(self, run: Run) -> None:
        """Keep a run apart."""
        self._inside.add(run)

    def holds(self, run: Run) -> bool:
        """True if a run is kept apart."""
        return run in self._inside

    async def cleared(self, run: Run) -> bool:
        """Wait until a run may begin; False when it is somebody else's by then."""
        if run not in self._inside:
            return True
        while not (run.given_up or run.interrupted is not None):
            async with self._turn:
                if run in self._begun:
                    return True
                # The store is told before the first of them runs: if the process dies, it knows
                # that just this set was running.
                if self._alone and not await self._begin(run):
                    return False
            if run not in self._begun:
                self._changed.clear()
                await self._clock.wait(self._changed, AGAIN)
        return True

    @property
    def _alone(self) -> bool:
        beside = sum(run not in self._inside for run in self._hand.aside)
        return len(self._hand) - beside == len(self._inside)

    async def _begin(self, run: Run) -> bool:
        """Have the store note that the whole set runs from now on."""
        waiting = [each for each in self._inside if each not in self._begun and not each.given_up]
        try:
            begun = await self._store.begin([each.job for each in waiting])
        except StoreUnavailable:
            return True  # and it is asked again
        self._begun.update(each for each in waiting if each.job.id in begun)
        self._changed.set()
        return run.job.id in begun

    def waiting(self) -> Sequence[Run]:
        """The runs that have not begun: a worker that stops gives them back."""
        return [run for run in self._inside if run not in self._begun and not run.given_up]

    def let_go(self, run: Run) -> None:
        """Forget a run that is not held any more."""
        self._begun.discard(run)
        # The set is through: a half of it may wait already, so the next look is due at once.
        if run in self._inside:
            self._inside.remove(run)
            if not self._inside:
                self._looked_at = -math.inf
        self._changed.set()
