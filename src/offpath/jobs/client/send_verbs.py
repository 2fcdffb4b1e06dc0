"""The way of an app's jobs and postings into the store, and the choice to begin a job at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from offpath.jobs.client.batch import Batch
from offpath.jobs.client.client import Client, as_jobs
from offpath.jobs.values.gates import Gate
from offpath.jobs.values.job import Job
from offpath.model.effects import Effects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from offpath.jobs.client.bound import Bound
    from offpath.jobs.client.core import AppCore
    from offpath.jobs.client.inline import InlineStarter, InlineWorker
    from offpath.jobs.client.session import StoreSession
    from offpath.jobs.define.registry import Registry
    from offpath.jobs.define.task import Sending, Task
    from offpath.jobs.values.handle import Handle
    from offpath.jobs.values.offers import WorkerOverrides
    from offpath.model.ledger.decision import LedgerOp
    from offpath.model.ledger.posting import NewPosting
    from offpath.model.options import Options
    from offpath.runtime.extension import Extension
    from offpath.runtime.extensions import Extensions

S = TypeVar("S")
G = TypeVar("G")


class SendVerbs:
    """The verbs of an app for jobs and postings that are not sent yet."""

    _core: AppCore
    tasks: Registry[Task[..., Any, Any]]
    _workers: Iterable[InlineWorker]
    _inline: InlineStarter | None = None

    if TYPE_CHECKING:
        _own_extensions: tuple[Extension, ...]

        async def _session(self) -> StoreSession: ...

        def _live(self) -> Any: ...  # noqa: ANN401 - the app's session

        def _extended(self) -> Extensions | None: ...

        def _worker(
            self,
            opened: Callable[[], Awaitable[object]],
            overrides: WorkerOverrides,
            *,
            takes: bool = True,
        ) -> InlineWorker: ...

        def by_name(self, name: str, /, options: Options | None = None) -> Sending[..., Any, Any]:
            """Offer a task by its name; see :meth:`TaskVerbs.by_name`."""
            ...

    @asynccontextmanager
    async def batch(self, *, within: object = None) -> AsyncIterator[Batch]:
        """Commit jobs, events and log entries together: ``async with app.batch() as b: ...``.

        ``b.enqueue(job)``, ``b.publish(topic, ...)``, ``b.append(domain, ...)`` and
        ``b.post(posting)`` only note; all is written in one commit when the block ends, in the
        caller's transaction if ``within`` is given, and nothing when it ends by an exception.
        After it, ``b.handles`` has the jobs'. The end raises what :meth:`enqueue` does.
        """
        batch = Batch(self._core.writer, self._core.client)
        try:
            yield batch
            await self._core.client.set_apart(batch.jobs)
        finally:
            effects = batch.close()
        batch.committed(await self._core.client.commit(effects, within) if effects else [])

    @overload
    async def enqueue(
        self, job: Job[S, G], /, *, within: object = None, inline: bool | None = None
    ) -> Handle[S, G]: ...
    @overload
    async def enqueue(
        self, gate: Gate[G], /, *, within: object = None, inline: Literal[False] | None = None
    ) -> Handle[Any, G]: ...
    @overload
    async def enqueue(
        self,
        jobs: Iterable[Job[S, G]],
        /,
        *,
        within: object = None,
        inline: Literal[False] | None = None,
    ) -> list[Handle[S, G]]: ...
    @overload
    async def enqueue(
        self,
        jobs: Iterable[Job[Any, Any] | Gate[Any]],
        /,
        *,
        within: object = None,
        inline: Literal[False] | None = None,
    ) -> list[Handle[Any, Any]]: ...
    async def enqueue(
        self, jobs: Any, /, *, within: object = None, inline: bool | None = None
    ) -> Handle[Any, Any] | list[Handle[Any, Any]]:
        """Enqueue one job, or several in one commit: all of them or none.

        When it returns, they are stored. Sending the same jobs again changes nothing, so after
        ``StoreUnavailable`` (the outcome is unknown) simply repeat the call.

        ``within`` takes the caller's own connection or session: the jobs then appear when the
        caller commits, and vanish when it rolls back. A gate is sent in the same way: the jobs that
        it holds make one group, and the handle is that of its first job.

        ``inline`` begins one job in this process at once: stored and leased like any other, but
        without waiting in its queue, whatever this process runs already. Its deadline and timeout
        hold; should the process die, or the attempt fail, it goes on as queued work. A job that was
        stored before, or that attaches to another, is left to its queue. None: as its task says.

        Raises ``UniqueConflict``, ``IdConflict``, ``WrongConnection`` and ``StoreError`` kinds;
        ``InvalidArgument`` and ``UnknownTask`` for what cannot begin here at once.
        """
        handles = await self._core.client.send(as_jobs(jobs), within, inline=inline)
        return handles[0] if isinstance(jobs, Job | Gate) else handles

    async def enqueue_by_name(
        self,
        name: str,
        options: Options | None = None,
        /,
        **inputs: Any,  # noqa: ANN401 - checked against the task's signature
    ) -> Handle[Any, Any]:
        """Enqueue by a task's name: ``await app.enqueue_by_name("add", a=1, b=2)``.

        All keywords are the task's arguments; options go second,
        ``app.enqueue_by_name("add", Options(delay=5), a=1, b=2)``. Raises ``UnknownTask``,
        ``InvalidInput`` and what :meth:`enqueue` does.
        """
        return await self.by_name(name, options).enqueue(**inputs)

    async def post(self, posting: NewPosting | LedgerOp, *, within: object = None) -> None:
        """Make a posting of the ledger once, in the caller's transaction if ``within`` is given.

        Its id tells a repeat. Raises ``LedgerError`` kinds; then nothing is written.
        """
        from offpath.model.ledger.plain import operation_of

        await self._core.client.commit(Effects(operations=(operation_of(posting),)), within)

    def bound(self, connection: object, /) -> Bound:
        """This app on the caller's connection or session: ``jobs = app.bound(session)``.

        What its verbs write joins the connection's transaction, so nobody forgets ``within=``.
        """
        from offpath.jobs.client.bound import Bound

        return Bound(self._core, connection)

    def _made_client(self) -> Client:
        return Client(
            self._session,
            self._live,
            self._begin_here,
            tasks=self.tasks.known,
            extended=self._extended,
            own=self._own_extensions,
        )

    async def _begin_here(
        self, jobs: Sequence[Job[Any, Any] | Gate[Any]], within: object
    ) -> Handle[Any, Any]:
        from offpath.jobs.client.inline import InlineStarter, startable

        job = startable(jobs, within, self.tasks)
        await self._session()
        await self._core.client.set_apart(jobs)
        if self._inline is None:
            self._inline = InlineStarter(lambda: self._workers, self._worker)
        return await self._inline.send(job, self._core.client)
