"""Glances: one look at the store tells which passes of upkeep have something to do.

An idle worker would otherwise ask a dozen questions a second, each with a round trip of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from offpath.jobs.worker.upkeep import NOTHING
from offpath.model.glance import EVERYTHING, Concern
from offpath.model.tally import Turn, Verdict
from offpath.runtime.clock import Clock
from offpath.runtime.loop import Answer, Iteration
from offpath.store.protocol import Store

FRESH: Final = 1.0
"""Seconds for which a pass that nobody woke trusts the last glance."""


class Glances:
    """The last glance, which the rescue makes at each of its turns, and the passes that it spares.

    A pass that the glance finds work for is woken at once. One that was woken always runs: what
    woke it may have come after the glance.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._seen: frozenset[Concern] = frozenset()
        self._at: float | None = None
        self._woken: set[Concern] = set()
        self._wakes: dict[Concern, Callable[[], None]] = {}

    def waking(self, concern: Concern, wake: Callable[[], None]) -> Callable[[], None]:
        """``wake``, and the turn that it brings about is not spared."""

        def woken() -> None:
            self._woken.add(concern)
            wake()

        self._wakes[concern] = woken
        return woken

    def before(self, rescue: Iteration) -> Iteration:
        """The rescue, behind a look: where nobody is gone it has nothing to do."""

        async def step() -> Answer:
            return await rescue() if await self._look() else NOTHING

        return step

    def spared(self, concern: Concern, passing: Iteration) -> Iteration:
        """A pass that is not made where the last glance saw nothing for it."""

        async def step() -> Answer:
            if self._spares(concern):
                return NOTHING
            # What moved may not have been all, and an error says nothing: the next turn is a pass.
            at, self._at = self._at, None
            answer = await passing()
            if isinstance(answer, Turn) and answer.verdict is Verdict.EMPTY and self._at is None:
                self._at = at
            return answer

        return step

    async def _look(self) -> bool:
        self._at = None  # an answer that does not come leaves nothing to trust
        seen = await self._store.glance()
        self._seen, self._at = seen, self._clock.monotonic()
        if seen != EVERYTHING:  # else nothing is spared, and each pass has its own time
            for concern, wake in self._wakes.items():
                if concern in seen:
                    wake()
        return Concern.DEATHS in seen

    def _spares(self, concern: Concern) -> bool:
        if concern in self._woken:
            self._woken.discard(concern)
            return False
        fresh = self._at is not None and self._clock.monotonic() - self._at < FRESH
        return fresh and concern not in self._seen
