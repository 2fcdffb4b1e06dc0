"""Admission: jobs with a limit are made ready as their keys have room.

Each worker does it, and any of them suffices: the store counts under a lock of the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.jobs.values.run import silent
from offpath.model.tally import Turn, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

BATCH = 1_000
"""Most jobs that one pass makes ready."""
EVERY = 1.0
"""Seconds between two passes that nothing brings about: one probe each while nothing is held."""
UNUSED_EVERY = 0.25
"""Seconds between two passes that announced work brings about, while no limits are known of."""
REMEMBERED = 60.0
"""Seconds after which limits that were not seen any more are out of use."""
_SOONEST = 0.001


class Admission:
    """Asks the store to admit: on a timer, when work is announced, when a rate lets more in."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._used_at: float | None = None
        self._asked_at: float | None = None
        self.wake: Callable[[], None] = silent
        """Makes the next step come soon; set by whoever repeats it."""

    @property
    def used(self) -> bool:
        """True if a job with a limit was seen lately."""
        return self._used_at is not None and self._since(self._used_at) < REMEMBERED

    def saw(self) -> None:
        """A job with a limit was taken."""
        self._used_at = self._clock.monotonic()

    def announce(self) -> None:
        """Jobs may have come, or room: have a pass soon, if that may be worth it."""
        if self.used or self._asked_at is None or self._since(self._asked_at) >= UNUSED_EVERY:
            self.wake()

    async def step(self) -> Turn | bool | float | None:
        """One pass; returns when to make the next one unbidden (True: at once)."""
        self._asked_at = self._clock.monotonic()
        done = await self._store.admit(limit=BATCH)
        if done.jobs or done.next_in is not None:
            self.saw()
        if done.more:
            return True
        # Never at once: a rate that is due in no time must not make the loop spin until the store
        # agrees.
        again = None if done.next_in is None else max(done.next_in, _SOONEST)
        return again if done.jobs else Turn(verdict=Verdict.EMPTY, again=again)

    async def all(self) -> int:
        """Admit all that there is room for now; returns how many jobs."""
        count, more = 0, True
        while more:
            done = await self._store.admit(limit=BATCH)
            count, more = count + done.jobs, done.more
        return count

    def _since(self, at: float) -> float:
        return self._clock.monotonic() - at
