"""The receivers of what a store did: the metrics, the observers of jobs, and the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from offpath.runtime.clock import Clock
from offpath.runtime.log import logger
from offpath.store.telemetry.meter import StoreMeter
from offpath.store.telemetry.moves import MoveStep

_log = logger("store")

SAID_EVERY = 60.0
"""Seconds for which rows that cannot be read are counted without another line in the log."""


class Observer(Protocol):
    """Sees what moves. Called after the commit; must not raise."""

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:
        """Report the commit of these transitions, in this order."""
        ...


class Telemetry:
    """The metrics and all observers of one store."""

    def __init__(self, clock: Clock, meter: StoreMeter, observers: Sequence[Observer] = ()) -> None:
        self.meter = meter
        self.observers: tuple[Observer, ...] = (meter, *observers)
        self._clock = clock
        self._said: dict[str, float] = {}

    def moved(self, steps: Iterable[MoveStep]) -> None:
        """Tell every observer of these transitions of jobs."""
        if several := list(steps):
            at = self._clock.now()
            for observer in self.observers:
                observer.moved(several, at)

    def sighted(self, table: str, columns: Iterable[str | None]) -> None:
        """Count rows that cannot be read, and say so in the log once in a while."""
        bad = [one for one in columns if one is not None]
        if not bad:
            return
        self.meter.unreadable(table, len(bad))
        now = self._clock.monotonic()
        if now - self._said.get(table, -SAID_EVERY) >= SAID_EVERY:
            self._said[table] = now
            _log.error(
                "%d rows of the table %s cannot be read and become dead letters (unreadable); "
                "`offpath doctor` tells more",
                len(bad),
                table,
            )
