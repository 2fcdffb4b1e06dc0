"""``app.blocking``: the client's verbs for code that has no event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, overload

from offpath.errors import AppClosed, InvalidArgument
from offpath.jobs.blocking.events import BlockingEvents, EventApp
from offpath.jobs.blocking.loop_thread import LoopThread, in_a_loop, wait
from offpath.jobs.blocking.twin import Twin, blocking
from offpath.jobs.blocking.views import (
    BlockingDead,
    BlockingHandle,
    BlockingJobs,
    BlockingLimits,
    BlockingQueues,
    BlockingSchedules,
)
from offpath.jobs.client.client import as_jobs, each_job, effects_of
from offpath.jobs.client.core import core_of
from offpath.jobs.client.selection import ids_of, the_record
from offpath.jobs.client.signal_verbs import SignalVerbs
from offpath.jobs.client.worker_verbs import WorkingVerbs
from offpath.jobs.handler.durable.lent_thread import Thread
from offpath.jobs.values.gates import Gate
from offpath.jobs.values.job import BeginsInline, Job, begins_here
from offpath.model.unsent import unsent
from offpath.runtime.threads import handlers_called

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from offpath.jobs.blocking.bound import BlockingBound
    from offpath.jobs.blocking.groups import BlockingGroups
    from offpath.jobs.client.client import Sent
    from offpath.jobs.client.dead_letters import DeadLetters
    from offpath.jobs.client.flow import LimitKeys, Queues
    from offpath.jobs.client.groups import GroupsView
    from offpath.jobs.client.jobs_view import JobsView
    from offpath.jobs.define.task import Sending
    from offpath.jobs.schedules.schedules import Schedules
    from offpath.jobs.values.handle import Handle
    from offpath.model.effects import Effects
    from offpath.model.job import Enqueued, JobRecord
    from offpath.model.options import Options
    from offpath.store.protocol import Migration, Store

T = TypeVar("T")
S = TypeVar("S")
G = TypeVar("G")
A_co = TypeVar("A_co", covariant=True)


class AsyncApp(EventApp[A_co], Protocol[A_co]):
    """The app, as the blocking side needs it."""

    @property
    def tasks(self) -> Mapping[str, BeginsInline]:
        """The tasks of this app, by name."""
        ...

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

    def store(self) -> Store:
        """The store, open or not."""
        ...

    def by_name(self, name: str, /, options: Options | None = None) -> Sending[..., Any, Any]:
        """A task by its name."""
        ...

    async def open(self) -> None:
        """Open it."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...

    async def migrate(self) -> list[Migration]:
        """Apply pending schema steps; returns those applied. The app need not be open for it."""
        ...


class BlockingClient(BlockingEvents[A_co], Twin[Any]):
    """The same verbs as on the app, blocking. Threads may share it.

    Its calls run in the app's event loop if the app is open in one (call them from other threads
    then), otherwise in a private loop. In a coroutine they raise: ``await`` the app's own verb
    there.
    """

    _app: AsyncApp[A_co]

    def __init__(self, app: AsyncApp[A_co]) -> None:
        super().__init__(self, app)
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
        loop = self._loop()
        return wait(asyncio.run_coroutine_threadsafe(make(), loop))

    def run_here(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine as :meth:`run` does; sync handlers that it leads to run in this thread.

        For tests whose transaction is bound to their thread.
        """
        thread = Thread(self._loop())
        with handlers_called(thread.run):
            return thread.wait_for(make())

    def _loop(self) -> asyncio.AbstractEventLoop:
        if in_a_loop():
            raise InvalidArgument(
                "app.blocking would block the event loop that runs here: "
                "use the app's own verb with `await` instead"
            )
        loop = core_of(self._app).loop() or self._thread.loop()
        if not loop.is_running():
            raise AppClosed(
                "the event loop in which this app was opened is not running: close the app there, "
                "or use only app.blocking in this process"
            )
        return loop

    def open(self) -> None:
        """Open the app now instead of at the first call."""
        self.run(self._app.open)

    def close(self) -> None:
        """Close the app, if it was opened here, and end the private loop. Idempotent."""
        if self._thread.owns(core_of(self._app).loop()):
            self.run(self._app.close)
        self._thread.stop()

    # Both ways to enqueue are written by hand: they return blocking handles, `within` is a blocking
    # connection, and overloads would be lost in one ParamSpec.

    @overload
    def enqueue(
        self, job: Job[S, G], /, *, within: object = None, inline: bool | None = None
    ) -> BlockingHandle[S, G]: ...
    @overload
    def enqueue(
        self, gate: Gate[G], /, *, within: object = None, inline: Literal[False] | None = None
    ) -> BlockingHandle[Any, G]: ...
    @overload
    def enqueue(
        self,
        jobs: Iterable[Job[S, G]],
        /,
        *,
        within: object = None,
        inline: Literal[False] | None = None,
    ) -> list[BlockingHandle[S, G]]: ...
    @overload
    def enqueue(
        self,
        jobs: Iterable[Job[Any, Any] | Gate[Any]],
        /,
        *,
        within: object = None,
        inline: Literal[False] | None = None,
    ) -> list[BlockingHandle[Any, Any]]: ...
    def enqueue(
        self, jobs: Any, /, *, within: object = None, inline: bool | None = None
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

    def bound(self, connection: object, /) -> BlockingBound:
        """This client on the caller's blocking connection; see :meth:`offpath.App.bound`."""
        from offpath.jobs.blocking.bound import BlockingBound

        return BlockingBound(self, connection)

    def handle(self, handle: Handle[S, G], /) -> BlockingHandle[S, G]:
        """The blocking form of a handle."""
        return BlockingHandle(self, handle)

    @property
    def groups(self) -> BlockingGroups:
        """Jobs that are counted together: get, members, cancel."""
        from offpath.jobs.blocking.groups import BlockingGroups

        return BlockingGroups(self, self._app.groups)

    migrate = blocking(AsyncApp.migrate)
    workers = blocking(WorkingVerbs.workers)
    backlog = blocking(WorkingVerbs.backlog)
    signal = blocking(SignalVerbs.signal)

    def _send(
        self, jobs: Sequence[Sent], within: object, *, inline: bool | None
    ) -> list[Handle[Any, Any]]:
        if inline is None:
            inline = begins_here(jobs, within, self._app.tasks)
        if inline:
            return self.run(lambda: core_of(self._app).send(jobs, within, inline=True))
        if not jobs:
            return []
        self.set_apart(jobs)
        return core_of(self._app).client.handles(jobs, self.commit(effects_of(jobs), within))

    def set_apart(self, jobs: Sequence[Sent]) -> None:
        """See the client's; without a need for it no event loop is needed."""
        if any(unsent(job).doubtful for job in each_job(jobs)):
            self.run(lambda: core_of(self._app).client.set_apart(jobs))

    def record_within(self, connection: object, job_id: str, /) -> JobRecord:
        """See :meth:`BlockingBound.get`."""
        (job_id,) = ids_of((job_id,))
        return the_record(self._app.store().get_within_blocking(connection, (job_id,)), job_id)

    def commit(self, effects: Effects, within: object = None) -> Sequence[Enqueued]:
        """Write effects in one commit, in the caller's transaction if ``within`` is given."""
        if within is None:
            return self.run(lambda: core_of(self._app).client.commit(effects))
        with core_of(self._app).client.sending(effects, within=True) as ready:
            return self._app.store().commit_within_blocking(within, ready)
