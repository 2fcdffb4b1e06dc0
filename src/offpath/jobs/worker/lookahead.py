"""Taking jobs ahead of the slots, where jobs are so short that a slot is free by their arrival.

Without it a worker of short jobs does one thing at a time: it waits for the store to hand out a
batch, then the store waits for the batch to be run. Batches ahead let both go on. It is bounded on
every side: in number, to workers with many slots, to jobs that have taken a few milliseconds, and
what does not get a slot soon is given back, so that a job never waits in one worker's memory
while another worker is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from offpath.jobs.values.run import Run
    from offpath.jobs.worker.hand import Hand

FEWEST_SLOTS = 20
"""With fewer slots a batch is too small to be worth it."""
SHORT = 0.01
"""Seconds that jobs may take on average."""
BATCHES = 4
"""The factor of its slots that a worker takes ahead: jobs of ``SHORT`` are run well within
patience.
"""
PATIENCE = 0.1
"""Seconds after which what still waits for a slot is given back."""
_WEIGHT = 0.02
"""Of the newest job in the average: it takes some fifty to change it."""


class Lookahead:
    """Decides how far ahead one worker takes jobs. Belongs to one event loop."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        # As if jobs were long: nothing is taken ahead before many were short.
        self._average = SHORT * 10
        self._worthwhile = hand.capacity >= FEWEST_SLOTS
        self._timer: asyncio.TimerHandle | None = None

    def ended(self, run: Run) -> None:
        """Take in how long a handler took."""
        if not self._worthwhile or run.ended_at is None or run.started_at is None:
            return
        self._average += _WEIGHT * (run.ended_at - run.started_at - self._average)
        self._hand.ahead = BATCHES * self._hand.capacity if self._average < SHORT else 0

    def waits(self, loop: asyncio.AbstractEventLoop, put_back: Callable[[], None]) -> None:
        """See to it that what waits for a slot is put back when its patience ends."""
        if self._timer is None:
            oldest = self._hand.oldest_waiting
            self._timer = loop.call_later(PATIENCE, self._look, loop, put_back, oldest)

    def _look(
        self, loop: asyncio.AbstractEventLoop, put_back: Callable[[], None], then: Run | None
    ) -> None:
        self._timer = None
        oldest = self._hand.oldest_waiting
        if oldest is None:
            return
        # The line moves, so its oldest has waited for less than the patience: look again later.
        if oldest is not then:
            self.waits(loop, put_back)
            return
        # From the beginning again: what was taken ahead did not get a slot in time.
        self._average = SHORT * 10
        self._hand.ahead = 0
        put_back()
