"""The instrumented store's limits and pauses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.job import Enqueued, LeasedJob, NewJob
from offpath.model.limit import Admitted, LimitRecord, QueueRecord
from offpath.store import observed
from offpath.store.watching import Watching


class InstrumentedFlow(Watching):
    """The part of the instrumented store that is a flow store."""

    async def admit(self, *, limit: int, keys: Sequence[str] = ()) -> Admitted:
        """As the store does."""
        done = await self._timed("admit", self._inner.admit(limit=limit, keys=keys))
        if done.jobs:
            self._metering.admitted(done.jobs)
        return done

    async def limits(
        self, *, limit: int = 1000, after: str | None = None, keys: Sequence[str] = ()
    ) -> list[LimitRecord]:
        """As the store does."""
        call = self._inner.limits(limit=limit, after=after, keys=keys)
        return await self._timed("limits", call)

    async def count_held(self, *, limit: int) -> int:
        """As the store does."""
        return await self._timed("count_held", self._inner.count_held(limit=limit))

    async def close_limit(
        self, key: str, *, until: datetime | None = None, seconds: float | None = None
    ) -> int:
        """As the store does."""
        call = self._inner.close_limit(key, until=until, seconds=seconds)
        return await self._timed("close_limit", call)

    async def open_limit(self, key: str) -> bool:
        """As the store does."""
        return await self._timed("open_limit", self._inner.open_limit(key))

    async def pause_queue(self, name: str, *, until: datetime | None = None) -> None:
        """As the store does."""
        await self._timed("pause_queue", self._inner.pause_queue(name, until=until))

    async def resume_queue(self, name: str) -> bool:
        """As the store does."""
        return await self._timed("resume_queue", self._inner.resume_queue(name))

    async def queues(self) -> list[QueueRecord]:
        """As the store does."""
        return await self._timed("queues", self._inner.queues())

    async def start(self, job: NewJob, worker: str) -> LeasedJob | None:
        """As the store does."""
        started = await self._timed("start", self._inner.start(job, worker))
        if started is not None:
            answer = Enqueued(id=job.id, job_id=job.id, created=True, run_at=started.run_at)
            self._moved([*observed.enqueued([job], [answer]), *observed.leased([started])])
        return started
