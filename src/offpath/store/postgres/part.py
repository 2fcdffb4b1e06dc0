"""The base of each part of the Postgres store: the database, the clock, and the announcements."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime

from offpath.model.effects import Effects
from offpath.model.job import TERMINAL, JobState
from offpath.runtime.clock import Clock
from offpath.store.hints import Hint, Hints, hints_of
from offpath.store.postgres.announcements import Announcer
from offpath.store.postgres.session import Database
from offpath.store.programs.dialect import Announced
from offpath.store.sql import Catalogue


class PostgresPart:
    """A part of the store; the store sets what is named here, and has all parts."""

    _database: Database
    _sql: Catalogue
    _clock: Clock | None
    _hints: Hints
    _announcer: Announcer

    def _now(self) -> datetime | None:
        """The time that was given; None is the database's own."""
        return None if self._clock is None else self._clock.now()

    def _tell(self, *hints: Hint) -> None:
        """Tell of what was committed, here and in other processes."""
        for hint in hints:
            self._hints.emit(hint)
            self._announcer.announce(hint)

    def _tell_effects(self, effects: Effects) -> None:
        self._tell(*hints_of(effects))

    def _tell_states(self, states: Iterable[JobState], otherwise: Hint) -> None:
        """Ended jobs are told about as such, others as ``otherwise``."""
        hints = {Hint.ENDED if state in TERMINAL else otherwise for state in states}
        self._tell(*sorted(hints))

    @contextlib.contextmanager
    def _telling(self) -> Iterator[Announced]:
        """Tell of messages about announced jobs once what is inside has been written."""
        announced = Announced()
        try:
            yield announced
        finally:
            self._tell(*announced.hints())
