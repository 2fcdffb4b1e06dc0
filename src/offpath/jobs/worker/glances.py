"""Glances: one look at the store tells which passes of upkeep have something to do.

An idle worker would otherwise ask a dozen questions a second, each with a round trip of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from offpath.jobs.worker.upkeep import NOTHING
from offpath.model.glance import APART, EVERYTHING, Concern
from offpath.model.tally import Turn, Verdict
from offpath.runtime.clock import Clock
from offpath.runtime.loop import Answer, Iteration, LoopSpec
from offpath.store.protocol import Store

TICKS: Final = "schedules"
"""The loop of schedules, which is not imported: it is made by those who define some."""
_TICKS_EVERY: Final = 10.0
"""Seconds after which it turns although no schedule is due: it also declares those of the code."""
FRESH: Final = 1.0
"""Seconds for which a pass that nobody woke trusts the last glance."""

_AGAIN: Final = msgspec.structs.replace(NOTHING, again=APART + 0.01)
"""A turn that found nothing, and behind which a second look is due."""


class Glances:
    """The last glance, which the rescue makes at each of its turns, and the passes that it spares.

    A pass that the glance finds work for is woken at once. One that was woken always runs: what
    woke it may have come after the glance.
    """

    def __init__(
        self, store: Store, clock: Clock, idle: Callable[[], bool] = lambda: False
    ) -> None:
        self._store = store
        self._clock = clock
        self._idle = idle
        """True if nothing runs, and no job is known to wait: only then work is looked for."""
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
        """The rescue, behind a look: where nobody is gone it has nothing to do.

        Where somebody may be, and nothing came of it, the next look is due as soon as it can prove
        a death.
        """

        async def step() -> Answer:
            if not await self._look():
                return NOTHING
            answer = await rescue()
            if self._seen != EVERYTHING and answer == NOTHING:
                return _AGAIN
            return answer

        return step

    def spared(
        self, concern: Concern, passing: Iteration, *, at_least: float | None = None
    ) -> Iteration:
        """A pass that is not made where the last glance saw nothing for it; after ``at_least``
        seconds it is made for what else it does.
        """
        made_at: float | None = None

        async def step() -> Answer:
            nonlocal made_at
            now = self._clock.monotonic()
            late = at_least is not None and (made_at is None or now - made_at >= at_least)
            if self.spares(concern) and not late:
                return NOTHING
            made_at = now
            # What moved may not have been all, and an error says nothing: the next turn is a pass.
            at, self._at = self._at, None
            answer = await passing()
            if isinstance(answer, Turn) and answer.verdict is Verdict.EMPTY and self._at is None:
                self._at = at
            return answer

        return step

    async def _look(self) -> bool:
        idle = self._idle()
        try:
            # The last answer is trusted meanwhile, for its time: passes turn beside the look.
            seen = await self._store.glance(work=idle)
        except BaseException:
            self._at = None  # an answer that does not come leaves nothing to trust
            raise
        self._seen, self._at = seen, self._clock.monotonic()
        if seen != EVERYTHING:  # else nothing is spared, and each pass has its own time
            for concern, wake in self._wakes.items():
                if concern in seen and (idle or concern is not Concern.WORK):
                    wake()
        return Concern.DEATHS in seen

    def spares(self, concern: Concern) -> bool:
        """True if the last glance, still fresh, saw nothing for it and nobody woke it since."""
        if concern in self._woken:
            self._woken.discard(concern)
            return False
        fresh = self._at is not None and self._clock.monotonic() - self._at < FRESH
        return fresh and concern not in self._seen


def sparing(glances: Glances, spec: LoopSpec) -> LoopSpec:
    """A loop that somebody added. That of schedules turns where one is due, or soon."""
    if spec.name != TICKS:
        return spec
    step = glances.spared(Concern.SCHEDULES, spec.step, at_least=_TICKS_EVERY)
    return msgspec.structs.replace(spec, step=step)
