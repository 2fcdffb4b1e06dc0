"""The blocking verbs on one connection of the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from offpath.jobs.blocking.views import BlockingHandle
    from offpath.jobs.values.gates import Gate
    from offpath.jobs.values.job import Job
    from offpath.model.job import JobRecord

S = TypeVar("S")
G = TypeVar("G")


class BlockingWrites(Protocol):
    """The client's verbs that write. The client itself makes what is bound, so it stands above."""

    @property
    def enqueue(self) -> Any:  # noqa: ANN401 - the overloads are those of the caller
        """Writing of jobs and gates."""

    @property
    def publish(self) -> Any:  # noqa: ANN401 - as above
        """Writing of outbox messages."""

    @property
    def append(self) -> Any:  # noqa: ANN401 - as above
        """Writing of log events."""

    def record_within(self, connection: object, job_id: str, /) -> JobRecord:
        """One job as a transaction sees it."""
        ...


class BlockingBound:
    """The blocking form of :class:`offpath.Bound`, for code without an event loop."""

    __slots__ = ("_client", "connection")

    def __init__(self, client: BlockingWrites, connection: object) -> None:
        self._client = client
        self.connection = connection
        """The connection or session that was given."""

    def __repr__(self) -> str:
        """Show the kind of connection."""
        return f"<BlockingBound to {type(self.connection).__name__}>"

    @overload
    def enqueue(self, job: Job[S, G], /) -> BlockingHandle[S, G]: ...
    @overload
    def enqueue(self, gate: Gate[G], /) -> BlockingHandle[Any, G]: ...
    @overload
    def enqueue(self, jobs: Iterable[Job[S, G]], /) -> list[BlockingHandle[S, G]]: ...
    def enqueue(self, jobs: Any, /) -> BlockingHandle[Any, Any] | list[BlockingHandle[Any, Any]]:
        """Enqueue one job or several; see :meth:`offpath.App.enqueue`."""
        handles: BlockingHandle[Any, Any] | list[BlockingHandle[Any, Any]]
        handles = self._client.enqueue(jobs, within=self.connection)
        return handles

    def get(self, job_id: str, /) -> JobRecord:
        """One job as this transaction sees it, also if it was enqueued here. Raises
        ``JobNotFound``.
        """
        record: JobRecord = self._client.record_within(self.connection, job_id)
        return record

    def publish(
        self,
        topic: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        key: str | None = None,
        stream: str = "default",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Write an event to the outbox; see :meth:`offpath.App.publish`."""
        written: str = self._client.publish(
            topic, payload, key=key, stream=stream, headers=headers, within=self.connection
        )
        return written

    def append(
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
        written: str = self._client.append(
            domain, type, stream, payload, key=key, headers=headers, within=self.connection
        )
        return written
