"""The store's part for flow control: limits, pauses and inline starts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from offpath.model.effects import Effects
from offpath.model.job import LeasedJob, NewJob
from offpath.model.limit import Admitted, LimitRecord, QueueRecord
from offpath.model.settlement import Settlement, Snoozed
from offpath.runtime.clock import Clock
from offpath.store.hints import Hint
from offpath.store.postgres import limits, pausing, starting
from offpath.store.postgres.session import Database
from offpath.store.postgres.steps import Announced
from offpath.store.sql import Catalogue


class FlowTables:
    """Limits, pauses and inline starts on Postgres; each method is one transaction."""

    _database: Database
    _sql: Catalogue
    _clock: Clock | None

    def _now(self) -> datetime | None:
        """The time that was given; None is the database's own."""
        raise NotImplementedError

    def _tell(self, *hints: Hint) -> None:
        """Tell of what was committed."""
        raise NotImplementedError

    def _tell_effects(self, effects: Effects) -> None:
        """Tell of what was committed."""
        raise NotImplementedError

    def _telling(self) -> AbstractContextManager[Announced]:
        """Tell of messages about announced jobs."""
        raise NotImplementedError

    async def admit(self, *, limit: int, keys: Sequence[str] = ()) -> Admitted:
        """Make held jobs ready."""
        now = self._now()
        with self._telling() as announced:
            done = await self._database.write(
                lambda: limits.admit_steps(limit, keys, now, announced, sql=self._sql)
            )
        if done.jobs:
            self._tell(Hint.WORK)
        return done

    async def limits(
        self, *, limit: int = 1000, after: str | None = None, keys: Sequence[str] = ()
    ) -> list[LimitRecord]:
        """Known keys by name."""
        now = self._now()
        return await self._database.write(
            lambda: limits.limits_steps(limit, after, keys, now, sql=self._sql)
        )

    async def close_limit(
        self, key: str, *, until: datetime | None = None, seconds: float | None = None
    ) -> int:
        """Admit nothing of a key for some time."""
        now = self._now()
        return await self._database.write(
            lambda: limits.close_steps(key, until, seconds, now, sql=self._sql)
        )

    async def open_limit(self, key: str) -> bool:
        """End a pause and a cool-down."""
        now = self._now()
        was_closed = await self._database.write(lambda: limits.open_steps(key, now, sql=self._sql))
        if was_closed:
            self._tell(Hint.WORK)
        return was_closed

    async def pause_queue(self, name: str, *, until: datetime | None = None) -> None:
        """Hand out nothing of a queue."""
        await self._database.write(lambda: pausing.pause_steps(name, until, sql=self._sql))

    async def resume_queue(self, name: str) -> bool:
        """Hand out its jobs again."""
        now = self._now()
        was_paused = await self._database.write(
            lambda: pausing.resume_steps(name, now, sql=self._sql)
        )
        if was_paused:
            self._tell(Hint.WORK)
        return was_paused

    async def queues(self) -> list[QueueRecord]:
        """Queues with unended jobs or a pause."""
        now = self._now()
        return await self._database.write(lambda: pausing.queues_steps(now, sql=self._sql), "limit")

    async def start(self, job: NewJob, worker: str) -> LeasedJob | None:
        """Enqueue a job and hand it out."""
        starting.require_free(job)
        now = self._now()
        with self._telling() as announced:
            return await self._database.write(
                lambda: starting.start_steps(job, worker, now, announced, sql=self._sql)
            )

    async def _admit_after(self, settlements: Sequence[Settlement]) -> None:
        """Give the room that these gave back to the next jobs of their keys."""
        keys = sorted({one.job.limit_key for one in settlements if one.job.limit_key is not None})
        if not keys:
            return
        now = self._now()
        if any(isinstance(one.outcome, Snoozed) and one.outcome.cool_down for one in settlements):
            await self._database.write(lambda: limits.hold_closed_steps(keys, now, sql=self._sql))
        waiting = await self._database.write(lambda: limits.waiting_steps(keys, sql=self._sql))
        if waiting:
            await self.admit(limit=limits.AT_ONCE, keys=keys)
