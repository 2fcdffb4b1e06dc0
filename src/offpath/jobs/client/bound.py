"""The app's verbs on one connection of the caller's, so that nobody forgets ``within=``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from offpath.jobs.client.client import as_jobs
from offpath.jobs.client.selection import ids_of, the_record
from offpath.jobs.values.gates import Gate
from offpath.jobs.values.job import Job
from offpath.model.effects import Effects

if TYPE_CHECKING:
    from offpath.jobs.client.core import AppCore
    from offpath.jobs.values.handle import Handle
    from offpath.model.job import JobRecord

S = TypeVar("S")
G = TypeVar("G")


class Bound:
    """An app on one connection or session of the caller's: what ``app.bound(session)`` returns.

    All that it writes joins the connection's transaction: it is there when the caller commits, and
    not when the caller rolls back. It lives as long as the connection does.
    """

    __slots__ = ("_core", "connection")

    def __init__(self, core: AppCore, connection: object) -> None:
        self._core = core
        self.connection = connection
        """The connection or session that was given."""

    def __repr__(self) -> str:
        """Show the kind of connection."""
        return f"<Bound to {type(self.connection).__name__}>"

    @overload
    async def enqueue(self, job: Job[S, G], /) -> Handle[S, G]: ...
    @overload
    async def enqueue(self, gate: Gate[G], /) -> Handle[Any, G]: ...
    @overload
    async def enqueue(self, jobs: Iterable[Job[S, G]], /) -> list[Handle[S, G]]: ...
    async def enqueue(self, jobs: Any, /) -> Handle[Any, Any] | list[Handle[Any, Any]]:
        """Enqueue one job or several; see :meth:`offpath.App.enqueue`."""
        handles = await self._core.send(as_jobs(jobs), self.connection, inline=None)
        return handles[0] if isinstance(jobs, Job | Gate) else handles

    async def get(self, job_id: str, /) -> JobRecord:
        """One job as this transaction sees it, also if it was enqueued here. Raises
        ``JobNotFound``.
        """
        (job_id,) = ids_of((job_id,))
        found = await (await self._core.opened()).get_within(self.connection, (job_id,))
        return the_record(found, job_id)

    async def publish(
        self,
        topic: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        key: str | None = None,
        stream: str = "default",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Write an event to the outbox; see :meth:`offpath.App.publish`."""
        writer = self._core.writer
        message = writer.message(topic, payload, key=key, stream=stream, headers=headers)
        await self._core.client.commit(Effects(messages=(message,)), self.connection)
        return message.id

    async def append(
        self,
        domain: str,
        type: str,  # noqa: A002 - the log's word
        stream: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Append an event to the log; see ``app.log.append``."""
        writer = self._core.writer
        event = writer.log_event(domain, type, stream, payload, key=key, headers=headers)
        await self._core.client.commit(Effects(log=(event,)), self.connection)
        return event.id
