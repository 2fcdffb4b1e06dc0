"""The part of the store that implements :class:`~offpath.store.flow.FlowStore`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.job import LeasedJob, NewJob
from offpath.model.limit import Admitted
from offpath.store.hints import Hint
from offpath.store.programs.instants import micros
from offpath.store.sqlite import limits, starts
from offpath.store.sqlite.instants import later
from offpath.store.sqlite.part import Part
from offpath.store.sqlite.session import Session


class Flowing(Part):
    """Limits, pauses and inline starts."""

    _admitting: limits.Admitting

    async def admit(self, *, limit: int, keys: Sequence[str] = ()) -> Admitted:
        """Make held jobs ready."""
        done = await self._write(
            lambda session: self._admitting.admit(session, self._now(), limit, keys),
            peek=lambda session: self._admitting.nothing(session, self._now()),
        )
        if done.jobs:
            self._hints.emit(Hint.WORK)
        return done

    async def close_limit(
        self, key: str, *, until: datetime | None = None, seconds: float | None = None
    ) -> int:
        """Admit nothing of a key for some time."""

        def close(session: Session) -> int:
            now = self._now()
            end = None if seconds is None else later(now, seconds)
            return limits.close(session, now, key, end if until is None else micros(until))

        return await self._write(close)

    async def open_limit(self, key: str) -> bool:
        """End a pause and a cool-down."""
        was_closed = await self._write(lambda session: limits.reopen(session, self._now(), key))
        if was_closed:
            self._hints.emit(Hint.WORK)
        return was_closed

    async def keep_templates(self, templates: Sequence[NewJob]) -> None:
        """There is no function here by which SQL could enqueue."""

    async def start(self, job: NewJob, worker: str) -> LeasedJob | None:
        """Enqueue a job and hand it out."""
        return await self._write(lambda session: starts.start(session, self._now(), job, worker))
