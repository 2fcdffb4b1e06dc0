"""The blocking verbs for events and the ledger: publish, append, accept, post, batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from offpath.jobs.client.batch import Batch
from offpath.jobs.client.core import core_of
from offpath.model.effects import Effects

if TYPE_CHECKING:
    from offpath.jobs.client.client import Sent
    from offpath.jobs.client.core import AppCore
    from offpath.model.job import Enqueued
    from offpath.model.ledger.decision import LedgerOp
    from offpath.model.ledger.posting import NewPosting

A_co = TypeVar("A_co", covariant=True)


class EventApp(Protocol[A_co]):
    """The app, as these verbs need it."""

    _core: AppCore

    async def accept(self, source: str, key: str, payload: Any = None) -> A_co:  # noqa: ANN401
        """Store a message once per source and key."""
        ...


class BlockingEvents(Generic[A_co]):
    """The verbs of :class:`offpath.BlockingClient` for events.

    ``within`` takes a blocking connection or session, and needs no event loop at all.
    """

    # Written by hand: the async verbs await their commit, which a blocking connection cannot.

    _app: EventApp[A_co]

    def commit(self, effects: Effects, within: object = None) -> Sequence[Enqueued]:
        """Write effects in one commit, in the caller's transaction if ``within`` is given."""
        raise NotImplementedError

    def set_apart(self, jobs: Sequence[Sent]) -> None:
        """See :meth:`offpath.jobs.client.client.Client.set_apart`."""
        raise NotImplementedError

    def publish(
        self,
        topic: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        key: str | None = None,
        stream: str = "default",
        headers: Mapping[str, str] | None = None,
        within: object = None,
    ) -> str:
        """Write an event to the outbox; see :meth:`offpath.App.publish`."""
        writer = core_of(self._app).writer
        message = writer.message(topic, payload, key=key, stream=stream, headers=headers)
        self.commit(Effects(messages=(message,)), within)
        return message.id

    def post(self, posting: NewPosting | LedgerOp, *, within: object = None) -> None:
        """Make a posting of the ledger; see :meth:`offpath.App.post`."""
        from offpath.model.ledger.plain import operation_of

        self.commit(Effects(operations=(operation_of(posting),)), within)

    def append(
        self,
        domain: str,
        type: str,  # noqa: A002 - the log's word
        stream: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        within: object = None,
    ) -> str:
        """Append an event to the log; as ``app.log.append``."""
        event = core_of(self._app).writer.log_event(
            domain, type, stream, payload, key=key, headers=headers
        )
        self.commit(Effects(log=(event,)), within)
        return event.id

    def accept(
        self,
        source: str,
        key: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        headers: Mapping[str, str] | None = None,
        within: object = None,
    ) -> A_co:
        """Store a message once per source and key; see :meth:`offpath.App.accept`."""
        message = core_of(self._app).writer.inbound(source, key, payload, headers=headers)
        (answer,) = self.commit(Effects(messages=(message,)), within)
        meaning: A_co = core_of(self._app).accepted(answer)
        return meaning

    @contextmanager
    def batch(self, *, within: object = None) -> Iterator[Batch]:
        """Commit jobs, events and log entries together; see :meth:`offpath.App.batch`."""
        batch = Batch(core_of(self._app).writer, core_of(self._app).client)
        try:
            yield batch
            self.set_apart(batch.jobs)
        finally:
            effects = batch.close()
        batch.committed(self.commit(effects, within) if effects else [])
