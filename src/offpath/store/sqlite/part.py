"""The base of each part of the SQLite store: the clock, transitions, reads, and the
announcements.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.runtime.clock import Clock
from offpath.store.hints import Hint, Hints, hints_of
from offpath.store.programs.instants import micros
from offpath.store.sqlite.readers import Readers
from offpath.store.sqlite.session import Session
from offpath.store.sqlite.writer import Shared, Writer

T = TypeVar("T")


class SqlitePart:
    """A part of the store; the store sets what is named here, and has all parts."""

    path: Path
    schema: str
    _clock: Clock
    _hints: Hints
    _writer: Writer | None
    _readers: Readers | None

    def _now(self) -> int:
        """The store's clock, in microseconds."""
        return micros(self._clock.now())

    async def _write(
        self,
        work: Callable[[Session], T],
        *,
        peek: Callable[[Session], T | None] | None = None,
        relaxed: bool = False,
        shared: Shared | None = None,
    ) -> T:
        """Run a transition, and tell of what it stirred."""
        if self._writer is None:
            raise _not_open()
        stirred = released = False

        def noting(session: Session) -> T:
            nonlocal stirred, released
            # Anew each time: the session is everybody's, and work may be run again.
            session.stirred = session.released = False
            answer = work(session)
            stirred, released = session.stirred, session.released
            return answer

        answer = await self._writer.do(noting, peek=peek, relaxed=relaxed, shared=shared)
        # After the commit: who is woken before it would look and find nothing.
        if stirred:
            self._hints.emit(Hint.MESSAGES)
        if released:
            self._hints.emit(Hint.WORK)
        return answer

    async def _read(self, work: Callable[[Session], T]) -> T:
        """Run a read."""
        if self._readers is None:
            raise _not_open()
        return await self._readers.do(work)

    async def _block(self, work: Callable[[], T]) -> T:
        """Run something that blocks for a moment."""
        if self._readers is None:
            raise _not_open()
        return await self._readers.run(work)

    def _tell(self, *, waiting: bool = False, ended: bool = False) -> None:
        if waiting:
            self._hints.emit(Hint.WORK)
        if ended:
            self._hints.emit(Hint.ENDED)

    def _tell_effects(self, effects: Effects) -> None:
        """Tell of what was committed."""
        for hint in hints_of(effects):
            self._hints.emit(hint)


def _not_open() -> StoreUnavailable:
    return StoreUnavailable("the store is not open: `async with` it, or await its open() first")
