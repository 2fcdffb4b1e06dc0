"""Commits of other connections: which hints they become, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from offpath.store.hints import Hint

WORK_PAUSE: Final = 0.002
"""Seconds between two hints of work: what is idle takes a job at once."""
PAUSE: Final = 0.02
"""Seconds between two hints of other kinds. A commit does not say what it has changed, so each
wakes whoever waits for anything."""
ACTIONS_PAUSE: Final = 1.0
"""Seconds between two hints of actions, of which there are few among the commits of a day."""


class ForeignCommits:
    """Turns commits into hints: the first at once, those behind it together. One event loop's."""

    def __init__(self, emit: Callable[[Hint], None]) -> None:
        others: list[Hint] = [one for one in Hint if one not in {Hint.WORK, Hint.ACTIONS}]
        self._kinds = [
            _Spaced([Hint.WORK], WORK_PAUSE, emit),
            _Spaced(others, PAUSE, emit),
            _Spaced([Hint.ACTIONS], ACTIONS_PAUSE, emit),
        ]

    def seen(self) -> None:
        """Somebody else has committed."""
        for kind in self._kinds:
            kind.told()

    def stop(self) -> None:
        """Forget what was not passed on yet."""
        for kind in self._kinds:
            kind.stop()


class _Spaced:
    """Hints that are passed on together, and not more often than their pause allows."""

    def __init__(self, hints: list[Hint], pause: float, emit: Callable[[Hint], None]) -> None:
        self._hints = hints
        self._pause = pause
        self._emit = emit
        self._again = False
        self._timer: asyncio.TimerHandle | None = None

    def told(self) -> None:
        if self._timer is not None:
            self._again = True
            return
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._over)
        for hint in self._hints:
            self._emit(hint)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._again = False

    def _over(self) -> None:
        self._timer = None
        if self._again:
            self._again = False
            self.told()
