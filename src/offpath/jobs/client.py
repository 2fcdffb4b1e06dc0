"""The client side of an open app: sending jobs and asking about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpath.errors import InvalidArgument, JobNotFound
from offpath.jobs.handle import Handle
from offpath.jobs.job import Job
from offpath.model.checks import seconds
from offpath.model.effects import Effects
from offpath.model.job import Enqueued, JobRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import timedelta

    from offpath.jobs.waiters import Waiters
    from offpath.store.protocol import Store


class Session:
    """An open store and the waits on it. Lives in one event loop."""

    __slots__ = ("keep_cancelled", "store", "waiters")

    def __init__(self, store: Store, waiters: Waiters, *, keep_cancelled: float | None) -> None:
        self.store = store
        self.waiters = waiters
        self.keep_cancelled = keep_cancelled


class Client:
    """Sends jobs and serves their handles, over whatever session is open."""

    def __init__(self, opened: Callable[[], Awaitable[Session]]) -> None:
        self._opened = opened

    async def send(
        self, jobs: Sequence[Job[Any, Any]], within: object = None
    ) -> list[Handle[Any, Any]]:
        """Enqueue jobs in one commit, or in the caller's transaction; handles in their order."""
        if not jobs:
            return []
        return self.handles(jobs, await self.commit(effects_of(jobs), within))

    async def commit(self, effects: Effects, within: object = None) -> list[Enqueued]:
        """Write effects in one commit, or in the caller's transaction; the store's answers."""
        store = (await self._opened()).store
        if within is None:
            return await store.commit(effects)
        return await store.commit_within(within, effects)

    def handles(
        self, jobs: Sequence[Job[Any, Any]], answers: Sequence[Enqueued]
    ) -> list[Handle[Any, Any]]:
        """The handles of jobs that the store answered for."""
        return [
            Handle(answer.job_id, self, job.decode, created=answer.created)
            for job, answer in zip(jobs, answers, strict=True)
        ]

    async def wait(self, job_id: str, timeout: float | timedelta | None) -> JobRecord:  # noqa: ASYNC109
        """The record of a job once it has ended."""
        limit = None if timeout is None else seconds(timeout, "timeout")
        return await (await self._opened()).waiters.wait(job_id, limit)

    async def record(self, job_id: str) -> JobRecord:
        """The record of a job as it is now. Raises ``JobNotFound``."""
        found = await (await self._opened()).store.get((job_id,))
        if not found:
            raise JobNotFound(f"there is no job {job_id} (any more)")
        return found[0]

    async def cancel_job(self, job_id: str) -> bool:
        """Ask for a job's cancellation; whether there was something to cancel."""
        session = await self._opened()
        return bool(await session.store.cancel((job_id,), keep=session.keep_cancelled))


def as_jobs(given: object) -> list[Job[Any, Any]]:
    """One job or several, as a list. Raises ``InvalidArgument`` for anything else."""
    several = [given] if isinstance(given, Job) else _listed(given)
    for each in several:
        if not isinstance(each, Job):
            raise InvalidArgument(
                f"enqueue takes jobs as task.job(...) makes them, not {type(each).__name__}; "
                "for one call write `await task.enqueue(...)`"
            )
    return several


def effects_of(jobs: Iterable[Job[Any, Any]]) -> Effects:
    """What to commit for these jobs."""
    return Effects(jobs=tuple(job.new for job in jobs))


def _listed(given: Any) -> list[Any]:  # noqa: ANN401 - checked by the caller
    try:
        return list(given)
    except TypeError:
        return [given]
