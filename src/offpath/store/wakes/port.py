"""The port of wake-ups: a line that tells other processes to look, and a bus that also hears."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from offpath.store.hints import Hint


class NotSent(Exception):
    """A notice could not be sent; the others find out by polling."""


class WakeLine(Protocol):
    """Tells other processes to look. Nobody waits for it."""

    @property
    def ready(self) -> bool:
        """True if there is a connection to send over."""
        ...

    async def connect(self) -> None:
        """Connect, if need be. Raises ``NotSent``."""
        ...

    def send(self, hints: Collection[Hint]) -> bool:
        """Send a notice of each; False while the one before is under way. Raises ``NotSent``."""
        ...

    async def close(self) -> None:
        """End the connection, when what was sent has arrived."""
        ...


class WakeBus(WakeLine, Protocol):
    """A line that also hears what other processes tell."""

    @property
    def shown(self) -> str:
        """Its address without a password."""
        ...

    @property
    def hears(self) -> bool:
        """True if notices of others would arrive now."""
        ...

    def hear(self, emit: Callable[[Hint], None]) -> None:
        """Call ``emit`` for each notice of another process, from now until it is closed."""
        ...
