"""The leader of a sweep that only one worker of the fleet may run."""

from __future__ import annotations

from offpath.runtime.clock import Clock
from offpath.store.protocol import Store

SHORTEST_TERM = 15.0
LOOKS_PER_TERM = 6
LONGEST_REST = 60.0


def term_of(every: float) -> float:
    """Seconds that a leader keeps a sweep: a little longer than until its next pass.

    So the one who leads goes on leading, and one that died is followed after one missed pass.
    """
    return max(SHORTEST_TERM, every + min(every, LONGEST_REST))


class Lead:
    """The claim of one worker on one sweep.

    The store gives a name for a term that asking again does not stretch. When the term is over,
    whoever asks first leads the next one: the leader renews by asking, and may lose. A long pass
    asks again between its rows and stops when it has lost. Whoever stops for good gives the rest of
    its term back, so that the next pass of another worker is not skipped.
    """

    def __init__(self, sweep: str, holder: str, term: float, *, store: Store, clock: Clock) -> None:
        self._key = f"sweep:{sweep}"
        self._holder = holder
        self._term = term
        self._store = store
        self._clock = clock
        self._asked_at = 0.0
        self._may_hold = False

    async def held(self) -> bool:
        """Ask for it: whether this worker leads now."""
        self._asked_at = self._clock.monotonic()
        self._may_hold = True  # also when the answer is lost
        self._may_hold = await self._store.claim(self._key, self._holder, ttl=self._term)
        return self._may_hold

    async def release(self) -> None:
        """Give the rest of the term back, if this worker leads."""
        if self._may_hold:
            await self._store.release_claim(self._key, self._holder)
            self._may_hold = False

    async def still(self) -> bool:
        """True if it still leads, as far as is known: the store is asked a few times per term."""
        if self._clock.monotonic() - self._asked_at < self._term / LOOKS_PER_TERM:
            return True
        return await self.held()
