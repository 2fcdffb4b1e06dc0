"""What every part of the instrumented store needs: timing, and telling what moved."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from offpath.runtime.clock import Clock
from offpath.runtime.log import logger
from offpath.store.capabilities import Capabilities
from offpath.store.metering import Metering
from offpath.store.observed import Step
from offpath.store.observed_events import MessageMove
from offpath.store.protocol import Store

T = TypeVar("T")

_log = logger("store")

SAID_EVERY = 60.0
"""Seconds for which rows that cannot be read are counted without another line in the log."""

MOST_DOUBTED = 10_000
"""Settlements with an unknown outcome that are remembered until they are repeated."""


class Observer(Protocol):
    """Sees what moves. Called after the commit; must not raise."""

    def moved(self, steps: Sequence[Step], at: datetime) -> None:
        """These transitions were committed, in this order."""
        ...


class Watching:
    """A store's wrapper that times its calls and tells observers."""

    def __init__(
        self, inner: Store, clock: Clock, metering: Metering, observers: Sequence[Observer] = ()
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._metering = metering
        self._said: dict[str, float] = {}
        self._observers: tuple[Observer, ...] = (metering, *observers)

    @property
    def inner(self) -> Store:
        """The store itself."""
        return self._inner

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do."""
        return self._inner.capabilities

    async def _timed(self, operation: str, call: Awaitable[T]) -> T:
        started = self._clock.monotonic()
        error: BaseException | None = None
        try:
            return await call
        except BaseException as raised:
            error = raised
            raise
        finally:
            seconds = self._clock.monotonic() - started
            self._metering.called(operation, seconds, error)

    def _sighted(self, table: str, columns: Iterable[str | None]) -> None:
        """Count rows that cannot be read, and say so in the log once in a while."""
        bad = [one for one in columns if one is not None]
        if not bad:
            return
        self._metering.unreadable(table, len(bad))
        now = self._clock.monotonic()
        if now - self._said.get(table, -SAID_EVERY) >= SAID_EVERY:
            self._said[table] = now
            _log.error(
                "%d rows of the table %s cannot be read and become dead letters (unreadable); "
                "`offpath doctor` tells more",
                len(bad),
                table,
            )

    def _moved(self, steps: Iterable[Step]) -> None:
        if several := list(steps):
            at = self._clock.now()
            for observer in self._observers:
                observer.moved(several, at)

    def _messages_moved(self, moves: Iterable[MessageMove]) -> None:
        self._metering.messages.moved(moves)
