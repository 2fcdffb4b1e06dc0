"""``app.blocking``: the client's verbs for code that has no event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeVar, overload

from offpath.errors import AppClosed, InvalidArgument
from offpath.jobs.blocking.events import BlockingEvents, EventApp
from offpath.jobs.blocking.flow import BlockingLimits, BlockingQueues
from offpath.jobs.blocking.jobs import BlockingDead, BlockingJobs
from offpath.jobs.blocking.schedules import BlockingSchedules
from offpath.jobs.client.client import as_jobs, each_job, effects_of
from offpath.jobs.values.gates import Gate
from offpath.jobs.values.job import G_co, Job, S_co

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from concurrent.futures import Future
    from datetime import timedelta

    from offpath.jobs.blocking.groups import BlockingGroups
    from offpath.jobs.client.client import Client, Sent
    from offpath.jobs.client.dead_letters import DeadLetters
    from offpath.jobs.client.flow import LimitKeys, Queues
    from offpath.jobs.client.groups import GroupsView
    from offpath.jobs.client.jobs_view import JobsView
    from offpath.jobs.define.task import Sending
    from offpath.jobs.schedules.schedules import Schedules
    from offpath.jobs.values.handle import Handle
    from offpath.model.effects import Effects
    from offpath.model.job import Enqueued, JobRecord, Progress
    from offpath.model.lease import WorkerRecord
    from offpath.model.options import Options
from offpath.store.protocol import Backlog, Migration, Store

T = TypeVar("T")
S = TypeVar("S")
G = TypeVar("G")
A_co = TypeVar("A_co", covariant=True)


class AsyncApp(EventApp[A_co], Protocol[A_co]):
    """The app, as the blocking side needs it."""

    client: Client

    @property
    def jobs(self) -> JobsView:
        """Reading and acting on jobs."""
        ...

    @property
    def dead(self) -> DeadLetters:
        """Dead letters."""
        ...

    @property
    def groups(self) -> GroupsView:
        """Groups."""
        ...

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store."""
        ...

    @property
    def queues(self) -> Queues:
        """The queues of the fleet."""
        ...

    @property
    def limits(self) -> LimitKeys:
        """The limits of the fleet."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop in which it is open; None while it is not."""
        ...

    def store(self) -> Store:
        """The store, open or not."""
        ...

    def by_name(self, name: str, /, options: Options | None = None) -> Sending[..., Any, Any]:
        """A task by its name."""
        ...

    async def send(
        self, jobs: Sequence[Sent], within: object, *, inline: bool = False
    ) -> list[Handle[Any, Any]]:
        """Enqueue jobs, or begin one."""
        ...

    async def open(self) -> None:
        """Open it."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...

    async def migrate(self) -> list[Migration]:
        """Apply pending schema steps."""
        ...

    async def workers(self) -> list[WorkerRecord]:
        """Every registered worker."""
        ...

    async def signal(
        self,
        target: Any,  # noqa: ANN401 - a job, a handle, an id or a key
        event: str,
        payload: Any = None,  # noqa: ANN401 - any value
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        keep: float | timedelta = ...,
    ) -> bool:
        """Tell a waiting job."""
        ...

    async def backlog(self) -> list[Backlog]:
        """Due work by queue and task."""
        ...


class LoopThread:
    """A private event loop in a daemon thread: one per app, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        with self._lock:
            if self._loop is None or not (self._thread and self._thread.is_alive()):
                self._start()
            assert self._loop is not None  # noqa: S101 - set by _start
            return self._loop

    def owns(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """Whether this is the private loop."""
        return loop is not None and loop is self._loop

    def stop(self) -> None:
        """End the loop and its thread. Idempotent."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _start(self) -> None:
        started = threading.Event()
        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_serve, args=(loop, started), name="offpath blocking client", daemon=True
        )
        self._thread.start()
        started.wait()


def _serve(loop: asyncio.AbstractEventLoop, started: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(started.set)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class BlockingClient(BlockingEvents[A_co]):
    """The same verbs as on the app, blocking. Threads may share it.

    Its calls run in the app's event loop if the app is open in one (call them from other threads
    then), else in a private loop. In a coroutine they raise: ``await`` the app's own verb there.
    """

    _app: AsyncApp[A_co]

    def __init__(self, app: AsyncApp[A_co]) -> None:
        self._app = app
        self._thread = LoopThread()
        self.jobs = BlockingJobs(self, app.jobs)
        self.dead = BlockingDead(self, app.dead)
        self.schedules = BlockingSchedules(self, app.schedules)
        self.queues = BlockingQueues(self, app.queues)
        self.limits = BlockingLimits(self, app.limits)

    def __enter__(self) -> Self:
        """Open the app."""
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the app, if it was opened here."""
        self.close()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of the app and wait for it: ``app.blocking.run(lambda: app.open())``.

        Raises ``InvalidArgument`` inside an event loop: it would stand still meanwhile.
        """
        if _in_a_loop():
            raise InvalidArgument(
                "app.blocking would block the event loop that runs here: "
                "use the app's own verb with `await` instead"
            )
        loop = self._app.loop or self._thread.loop()
        if not loop.is_running():
            raise AppClosed(
                "the event loop in which this app was opened is not running: close the app there, "
                "or use only app.blocking in this process"
            )
        return _wait(asyncio.run_coroutine_threadsafe(make(), loop))

    def open(self) -> None:
        """Open the app now instead of at the first call."""
        self.run(self._app.open)

    def close(self) -> None:
        """Close the app, if it was opened here, and end the private loop. Idempotent."""
        if self._thread.owns(self._app.loop):
            self.run(self._app.close)
        self._thread.stop()

    @overload
    def enqueue(
        self, job: Job[S, G], /, *, within: object = None, inline: bool = False
    ) -> BlockingHandle[S, G]: ...
    @overload
    def enqueue(
        self, gate: Gate[G], /, *, within: object = None, inline: Literal[False] = False
    ) -> BlockingHandle[Any, G]: ...
    @overload
    def enqueue(
        self, jobs: Iterable[Job[S, G]], /, *, within: object = None, inline: Literal[False] = False
    ) -> list[BlockingHandle[S, G]]: ...
    @overload
    def enqueue(
        self,
        jobs: Iterable[Job[Any, Any] | Gate[Any]],
        /,
        *,
        within: object = None,
        inline: Literal[False] = False,
    ) -> list[BlockingHandle[Any, Any]]: ...
    def enqueue(
        self, jobs: Any, /, *, within: object = None, inline: bool = False
    ) -> BlockingHandle[Any, Any] | list[BlockingHandle[Any, Any]]:
        """Enqueue one job or several in one commit; see :meth:`offpath.App.enqueue`.

        ``within`` takes a blocking connection or session, and needs no event loop at all.

        ``inline`` begins one job in this process at once and does not wait for its end: an async
        handler runs in the loop that the client's calls run in, a sync one in a thread. Closing the
        client waits for it; a process that ends without that leaves it to be rescued.
        """
        several = as_jobs(jobs)
        handles = [BlockingHandle(self, one) for one in self._send(several, within, inline=inline)]
        return handles[0] if isinstance(jobs, Job | Gate) else handles

    def enqueue_by_name(
        self,
        name: str,
        options: Options | None = None,
        /,
        **inputs: Any,  # noqa: ANN401 - checked against the task's signature
    ) -> BlockingHandle[Any, Any]:
        """Enqueue by a task's name; see :meth:`offpath.App.enqueue_by_name`."""
        return self.enqueue(self._app.by_name(name, options).job(**inputs))

    def handle(self, handle: Handle[S, G], /) -> BlockingHandle[S, G]:
        """The blocking form of a handle."""
        return BlockingHandle(self, handle)

    @property
    def groups(self) -> BlockingGroups:
        """Jobs that are counted together: get, members, cancel."""
        from offpath.jobs.blocking.groups import BlockingGroups

        return BlockingGroups(self, self._app.groups)

    def migrate(self) -> list[Migration]:
        """Apply pending schema steps; returns those applied."""
        return self.run(self._app.migrate)

    def workers(self) -> list[WorkerRecord]:
        """Every registered worker."""
        return self.run(self._app.workers)

    def signal(
        self,
        target: Any,  # noqa: ANN401 - a job, a handle, an id or a key
        event: str,
        payload: Any = None,  # noqa: ANN401 - any value
        **how: Any,  # noqa: ANN401 - as the app's own
    ) -> bool:
        """Tell a waiting job; the options are those of :meth:`offpath.App.signal`."""
        return self.run(lambda: self._app.signal(target, event, payload, **how))

    def backlog(self) -> list[Backlog]:
        """Due work by queue and task."""
        return self.run(self._app.backlog)

    def _send(
        self, jobs: Sequence[Sent], within: object, *, inline: bool
    ) -> list[Handle[Any, Any]]:
        if inline:
            return self.run(lambda: self._app.send(jobs, within, inline=True))
        if not jobs:
            return []
        self.set_apart(jobs)
        return self._app.client.handles(jobs, self.commit(effects_of(jobs), within))

    def set_apart(self, jobs: Sequence[Sent]) -> None:
        """See the client's; without a need for it no event loop is needed."""
        if any(job.doubtful for job in each_job(jobs)):
            self.run(lambda: self._app.client.set_apart(jobs))

    def commit(self, effects: Effects, within: object = None) -> Sequence[Enqueued]:
        """Write effects in one commit, in the caller's transaction if ``within`` is given."""
        if within is None:
            return self.run(lambda: self._app.client.commit(effects))
        return self._app.store().commit_within_blocking(within, effects)


class BlockingHandle(Generic[S_co, G_co]):
    """One enqueued job, for blocking code."""

    __slots__ = ("_client", "_handle")

    def __init__(self, client: BlockingClient[Any], handle: Handle[S_co, G_co]) -> None:
        self._client = client
        self._handle = handle

    def __repr__(self) -> str:
        """Show the id."""
        return f"<BlockingHandle {self._handle.id}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self._handle.id

    @property
    def created(self) -> bool:
        """Whether this enqueue made the job."""
        return self._handle.created

    def result(self, *, timeout: float | timedelta | None = None) -> S_co:
        """Wait for the job to end and return its result; see :meth:`offpath.Handle.result`."""
        return self._client.run(lambda: self._handle.result(timeout=timeout))

    def group(
        self, *, timeout: float | timedelta | None = None, allow_failed: bool = False
    ) -> G_co:
        """Wait for the job and all it led to; returns the group's value: see
        :meth:`offpath.Handle.group`.
        """
        group = self._handle.group
        return self._client.run(lambda: group(timeout=timeout, allow_failed=allow_failed))

    def cancel_group(self) -> int:
        """Cancel the job and every open job of its group; how many that concerns."""
        return self._client.run(self._handle.cancel_group)

    def status(self) -> JobRecord:
        """Everything the store knows of the job now."""
        return self._client.run(self._handle.status)

    def progress(self) -> Progress | None:
        """What the handler last told."""
        return self._client.run(self._handle.progress)

    def cancel(self) -> bool:
        """Cancel the job; False when it had ended already."""
        return self._client.run(self._handle.cancel)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _wait(future: Future[T]) -> T:
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C in this thread must not leave the call running in the other
        raise
