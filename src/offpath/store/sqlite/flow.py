"""The part of the store that implements :class:`~offpath.store.flow.FlowStore`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.effects import Effects
from offpath.model.job import LeasedJob, NewJob
from offpath.model.limit import Admitted
from offpath.store.hints import Hint
from offpath.store.programs.instants import micros
from offpath.store.programs.leased import LEASED, WIDTH
from offpath.store.refusals import not_registered, refuse_waiting
from offpath.store.sqlite import limits
from offpath.store.sqlite.enqueue import effect_steps
from offpath.store.sqlite.parameters import later
from offpath.store.sqlite.part import SqlitePart
from offpath.store.sqlite.session import SQL, Session


class Flowing(SqlitePart):
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
        return await self._write(lambda session: start(session, self._now(), job, worker))


def start(session: Session, now: int, job: NewJob, worker: str) -> LeasedJob | None:
    """Enqueue a job and hand it to a worker; None when it was not created, or waits for its key."""
    refuse_waiting(job)
    # Before anything is written: nobody would renew the lease of a worker that is not there.
    if not session.run(SQL["alive"](worker=worker, now=now)):
        raise not_registered(worker)
    session.run(SQL["beside_suspect"](worker=worker))  # it begins whatever runs there
    (answer,) = session.drive(effect_steps(Effects(jobs=(job,)), now))
    if not answer.created:
        return None
    if job.announce:
        session.stirred = True
    rows = session.run(SQL["start_lease"](id=job.id, worker=worker, now=now))
    return LEASED.one(rows[0][:WIDTH]) if rows else None
