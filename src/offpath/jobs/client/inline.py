"""Jobs that begin at once in the process that enqueues them, without a hop through their queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from offpath.errors import AppClosed, InvalidArgument, UnknownTask
from offpath.jobs.values.job import Job, in_the_way
from offpath.model.effects import Effects
from offpath.model.job import Enqueued
from offpath.model.unsent import unsent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from offpath.jobs.client.client import Client
    from offpath.jobs.values.gates import Gate
    from offpath.jobs.values.handle import Handle
    from offpath.jobs.values.offers import WorkerOverrides
    from offpath.model.job import NewJob


class InlineWorker(Protocol):
    """A worker in this process, as far as a job can begin in it at once."""

    @property
    def may_begin(self) -> bool:
        """True if it takes a job now."""
        ...

    async def begin(self, new: NewJob, /) -> bool:
        """Store a job and run it. Returns False for one that is stored already, or attaches."""
        ...

    async def attend(self) -> object:
        """Start it, so that it only runs what begins in it."""
        ...


class MakesWorkers(Protocol):
    """The app, as far as it makes workers."""

    def __call__(
        self,
        opened: Callable[[], Awaitable[object]],
        overrides: WorkerOverrides,
        *,
        takes: bool = True,
    ) -> InlineWorker:
        """Make one."""
        ...


class InlineStarter:
    """Finds the worker that runs a job here: one that runs anyway, otherwise one that takes no
    jobs.
    """

    def __init__(self, workers: Callable[[], Iterable[InlineWorker]], make: MakesWorkers) -> None:
        self._workers = workers
        self._make = make
        self._starting: asyncio.Task[None] | None = None

    async def send(self, job: Job[Any, Any], client: Client) -> Handle[Any, Any]:
        """Store a job and begin it. One that is known, or attaches, is only looked up."""
        worker = await self._worker()
        with client.sending(Effects(jobs=(unsent(job).new,))) as ready:
            begun = await worker.begin(*ready.jobs)
        if not begun:
            (handle,) = await client.send((job,))
            return handle
        made = Enqueued(id=job.id, job_id=job.id, created=True)
        (handle,) = client.handles((job,), (made,))
        return handle

    async def _worker(self) -> InlineWorker:
        if (found := self._running()) is not None:
            return found
        if self._starting is None or self._starting.done() or self._elsewhere(self._starting):
            # The only one that keeps it is its own loops: an app that is closed stops it.
            self._starting = asyncio.create_task(self._start(), name="offpath inline worker")
        await asyncio.shield(self._starting)
        found = self._running()
        if found is None:
            raise AppClosed("the app was closed while a job was about to begin in it")
        return found

    @staticmethod
    def _elsewhere(task: asyncio.Task[None]) -> bool:
        """True if it was begun in an event loop that has ended since."""
        return task.get_loop() is not asyncio.get_running_loop()

    async def _start(self) -> None:
        await self._make(_nothing, {}, takes=False).attend()

    def _running(self) -> InlineWorker | None:
        return next((worker for worker in self._workers() if worker.may_begin), None)


def startable(
    jobs: Sequence[Job[Any, Any] | Gate[Any]], within: object, tasks: Mapping[str, object]
) -> Job[Any, Any]:
    """The one job that is to begin here. Raises ``InvalidArgument`` and ``UnknownTask``."""
    job = jobs[0] if len(jobs) == 1 else None
    if not isinstance(job, Job):
        raise InvalidArgument("inline=True begins one job: enqueue several one after another")
    if within is not None:
        raise InvalidArgument(
            "inline=True and within= exclude each other: a job cannot begin before the caller's "
            "transaction is committed"
        )
    if job.task not in tasks:
        raise UnknownTask(
            f"no task is named {job.task!r} in this app, so its job cannot begin here: "
            "enqueue it without inline=True"
        )
    reason = in_the_way(unsent(job).new)
    if reason is not None:
        raise InvalidArgument(
            f"{job!r} cannot begin at once: {reason}; enqueue it without inline=True"
        )
    return job


async def _nothing() -> None:
    """Do nothing where a worker of another process opens the app: this app is open."""
