"""The part of the memory store that holds flow control."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.job import LeasedJob, NewJob
from offpath.model.limit import Admitted, LimitRecord, QueueRecord, counted_to
from offpath.store.flow import MOST_IN_QUEUE
from offpath.store.memory import limits, pauses
from offpath.store.memory.enqueue import NewJobs
from offpath.store.memory.part import MemoryPart
from offpath.store.memory.tables import Tables
from offpath.store.refusals import not_registered, refuse_waiting
from offpath.store.rows.instants import maybe_later
from offpath.store.rows.jobs import handed_out, leased


class MemoryFlow(MemoryPart):
    """Limits, pauses and inline starts. No method waits."""

    async def admit(self, *, limit: int, keys: Sequence[str] = ()) -> Admitted:
        """Make held jobs ready."""
        done = limits.admit(self._tables, self._clock.now(), limit, keys)
        self._tell(waiting=done.jobs > 0)
        return done

    async def limits(
        self, *, limit: int = 1000, after: str | None = None, keys: Sequence[str] = ()
    ) -> list[LimitRecord]:
        """Known keys by name."""
        now = self._clock.now()
        return limits.records(self._tables, now, limit=limit, after=after, keys=keys)

    async def count_held(self, *, limit: int) -> int:
        """The number of jobs that wait for room."""
        return min(limits.count_held(self._tables), limit)

    async def close_limit(
        self, key: str, *, until: datetime | None = None, seconds: float | None = None
    ) -> int:
        """Admit nothing of a key for some time."""
        now = self._clock.now()
        end = until if until is not None else maybe_later(now, seconds)
        return limits.close(self._tables, now, key, end)

    async def open_limit(self, key: str) -> bool:
        """End a pause and a cool-down."""
        was_closed = limits.reopen(self._tables, self._clock.now(), key)
        self._tell(waiting=was_closed)
        return was_closed

    async def pause_queue(self, name: str, *, until: datetime | None = None) -> None:
        """Hand out nothing of a queue."""
        self._tables.pauses[name] = until

    async def resume_queue(self, name: str) -> bool:
        """Hand out its jobs again."""
        was_paused = pauses.resume(self._tables, self._clock.now(), name)
        self._tell(waiting=was_paused)
        return was_paused

    async def queues(self, *, most: int = MOST_IN_QUEUE) -> list[QueueRecord]:
        """Queues with unended jobs or a pause."""
        return [counted_to(most, one) for one in pauses.records(self._tables, self._clock.now())]

    async def keep_templates(self, templates: Sequence[NewJob]) -> None:
        """Nobody enqueues by SQL here."""

    async def start(self, job: NewJob, worker: str) -> LeasedJob | None:
        """Enqueue a job and hand it out."""
        started = start(self._tables, self._clock.now(), job, worker)
        self._tell()
        return started


def start(tables: Tables, now: datetime, job: NewJob, worker: str) -> LeasedJob | None:
    """Enqueue a job and hand it to a worker; None when it was not created, or waits for its key."""
    refuse_waiting(job)
    known = tables.workers.get(worker)
    # Before anything is written: a rescue would take the job from this worker at once.
    if known is None or known.expires_at <= now:
        raise not_registered(worker)
    plan = NewJobs(tables, now)
    if not plan.add(job).created:
        return None
    plan.apply()
    record = tables.jobs[job.id]
    # It stays enqueued, and a lease hands it out when the key is free.
    if tables.awaits_key(record, now):
        return None
    running = handed_out(record, worker, now)
    tables.file(running, now)
    tables.suspects.alone -= set(tables.held[worker])  # it begins whatever runs there
    return leased(running)
