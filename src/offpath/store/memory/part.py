"""The base of each part of the memory store: the tables, the clock, and the announcements."""

from __future__ import annotations

from offpath.runtime.clock import Clock
from offpath.store.hints import Hint, Hints
from offpath.store.memory.tables import Tables


class MemoryPart:
    """A part of the store; the store sets what is named here, and has all parts."""

    _clock: Clock
    _tables: Tables
    _hints: Hints

    def _tell(self, *, waiting: bool = False, ended: bool = False) -> None:
        """Wake who may wait for what a transition brought about."""
        if waiting:
            self._hints.emit(Hint.WORK)
        if ended:
            self._hints.emit(Hint.ENDED)
        if self._tables.mailbox.stirred or self._tables.log.stirred:
            self._tables.mailbox.stirred = self._tables.log.stirred = False
            self._hints.emit(Hint.MESSAGES)
