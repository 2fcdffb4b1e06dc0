"""Wake-up hints: "look now". Never needed for correctness, since everything also polls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

from offpath.model.effects import Effects

_log = logging.getLogger("offpath.store")


class Hint(StrEnum):
    """The kind of row that may have changed."""

    WORK = "work"
    """Jobs may be ready, or due at another time than was thought."""
    CANCEL = "cancel"
    """A running job's cancellation may have been asked for."""
    ENDED = "ended"
    """Jobs may have ended: somebody may be waiting for them."""
    MESSAGES = "messages"
    """Messages may be due, or events may have been appended to the log."""
    ACTIONS = "actions"
    """An action of an operator may have been given to whoever can carry it out."""


def hints_of(effects: Effects) -> tuple[Hint, ...]:
    """The hints to announce once effects were committed."""
    if effects.stirs_messages:
        return _BOTH if effects.jobs else _BOTH[1:]
    return _BOTH[:1] if effects.jobs else ()


_BOTH = (Hint.WORK, Hint.MESSAGES)


class Hints:
    """Subscribers of one store in this process. Call it only from the event loop's thread."""

    def __init__(self) -> None:
        self.subscribers: dict[int, Callable[[Hint], None]] = {}
        """Empty while nobody needs a hint."""
        self._next = 0

    def subscribe(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Call ``callback`` for each hint until the returned function is called."""
        key = self._next
        self._next += 1
        self.subscribers[key] = callback
        return lambda: self.subscribers.pop(key, None) and None

    def emit(self, hint: Hint) -> None:
        """Tell every subscriber; one that raises does not disturb the others."""
        # A copy: a callback may end its own subscription.
        for callback in tuple(self.subscribers.values()):
            try:
                callback(hint)
            except Exception:  # noqa: BLE001 - a subscriber's fault must not reach the store
                _log.exception("a hint subscriber raised")
