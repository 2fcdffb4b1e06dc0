"""The verbs of an app for events: outbox, inbox and log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from offpath.errors import InvalidArgument
from offpath.events import event_writer
from offpath.events.event_writer import effects_of
from offpath.events.inbox import Accepted, H, source
from offpath.events.relay import outlet

if TYPE_CHECKING:
    from datetime import timedelta

    from offpath.config import Settings
    from offpath.events.dispatcher import AnyDispatcher
    from offpath.events.inbox import Drain
    from offpath.events.messages import MessagesView
    from offpath.events.registry import Events
    from offpath.events.relay import Relay
    from offpath.model.effects import Effects
    from offpath.model.job import Enqueued
    from offpath.model.message import MessageBacklog
    from offpath.model.retry import RetryOptions, RetryPolicy
    from offpath.store.events import EventStore

D = TypeVar("D", bound="AnyDispatcher")

Commit = Callable[["Effects", object], Awaitable[Sequence["Enqueued"]]]
"""Commits effects, in the caller's transaction if one is given."""


class EventLog:
    """``app.log``: the append-only log that routers read."""

    def __init__(self, writer: event_writer.MessageWriter, commit: Commit) -> None:
        self._writer = writer
        self._commit = commit

    async def append(
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
        """Append an event; returns its id. With ``within`` it joins the caller's transaction.

        Events of one ``key`` are routed in the order in which they were committed. Raises as
        :meth:`offpath.App.publish` does.
        """
        event = self._writer.log_event(domain, type, stream, payload, key=key, headers=headers)
        await self._commit(effects_of(log=event), within)
        return event.id


class EventVerbs:
    """The events part of :class:`offpath.App`."""

    settings: Settings
    _events: Events
    messages: MessagesView
    """The messages of outbox and inbox: get, find, redrive, replay, discard."""
    log: EventLog
    """The append-only log that routers read."""

    async def _commit(self, effects: Effects, within: object = None) -> Sequence[Enqueued]:
        raise NotImplementedError

    async def _opened(self) -> EventStore:
        raise NotImplementedError

    # -- outbox ----------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        key: str | None = None,
        stream: str = event_writer.DEFAULT_STREAM,
        headers: Mapping[str, str] | None = None,
        within: object = None,
    ) -> str:
        """Write an event to the outbox; returns its id, which receivers drop duplicates by.

        With ``within`` it is written in the caller's transaction. A worker relays it to the
        dispatcher of its stream; until a worker has one, it waits. Raises ``InvalidArgument``,
        ``TooLarge`` (``max_input_bytes``), ``WrongConnection`` and ``StoreError`` kinds.
        """
        message = self._events.writer.message(
            topic, payload, key=key, stream=stream, headers=headers
        )
        await self._commit(effects_of(message=message), within)
        return message.id

    @overload
    def outbox(
        self,
        stream: str = ...,
        /,
        *,
        dispatcher: None = None,
        ordered: bool = ...,
        attempts: int | None = ...,
        retry: RetryOptions | RetryPolicy | None = ...,
        timeout: float | timedelta = ...,
        concurrency: int = ...,
    ) -> Callable[[D], D]: ...
    @overload
    def outbox(
        self,
        stream: str = ...,
        /,
        *,
        dispatcher: D,
        ordered: bool = ...,
        attempts: int | None = ...,
        retry: RetryOptions | RetryPolicy | None = ...,
        timeout: float | timedelta = ...,
        concurrency: int = ...,
    ) -> D: ...
    def outbox(
        self,
        stream: str = event_writer.DEFAULT_STREAM,
        /,
        *,
        dispatcher: Any = None,
        ordered: bool = False,
        attempts: int | None = None,
        retry: RetryOptions | RetryPolicy | None = None,
        timeout: float | timedelta = 30.0,
        concurrency: int = 50,
    ) -> Any:
        """Relay a stream's events: ``app.outbox("mail", dispatcher=d)`` or ``@app.outbox("mail")``.

        A dispatcher is a function of an :class:`Event`, sync or async, or an object with
        ``dispatch(event)`` or ``dispatch_many(events)``. Returning means delivered; raising means
        again later, up to ``attempts`` (``max_outbox_attempts`` by default), spaced as ``retry``
        says; raising :class:`Undeliverable` ends it at once. One attempt may take
        ``timeout`` seconds, and ``concurrency`` of them run at once. In an ``ordered`` stream,
        events of one key go out in the order of their commits, one after the other.

        Raises ``InvalidArgument``, also when the stream has a dispatcher already.
        """
        refuse_bare(stream, "outbox")

        def register(given: D) -> D:
            made = outlet(
                stream,
                given,
                ordered=ordered,
                retry=retry,
                attempts=attempts or self.settings.max_outbox_attempts,
                timeout=timeout,
                concurrency=concurrency,
            )
            self._events.add_outlet(made)
            return given

        return register if dispatcher is None else register(dispatcher)

    def relay(self, stream: str = event_writer.DEFAULT_STREAM, /) -> Relay:
        """A relay to drive by hand: ``tally = await app.relay("mail").run_once()``."""
        return self._events.relay(stream)

    # -- inbox -----------------------------------------------------------------------------------

    def inbox(
        self,
        source_name: str,
        /,
        *,
        attempts: int | None = None,
        retry: RetryOptions | RetryPolicy | None = None,
        timeout: float | timedelta = 30.0,
        concurrency: int = 50,
    ) -> Callable[[H], H]:
        """Apply a source's messages by a function: ``@app.inbox("stripe")``.

        Each of its parameters is told by its annotation: :class:`InboxMessage` (or none),
        :class:`InboxContext`, or any type, as which the payload is read. Returning means
        applied, and what was asked for through the context is committed with it. Raising
        :class:`Rejected` is a terminal no; another error means again later, up to
        ``attempts`` (``max_inbox_attempts`` by default).

        Raises ``InvalidArgument``, also when the source has a handler already, and ``TaskError``.
        """
        refuse_bare(source_name, "inbox")

        def register(handler: H) -> H:
            made = source(
                source_name,
                handler,
                self._events.codec,
                retry=retry,
                attempts=attempts or self.settings.max_inbox_attempts,
                timeout=timeout,
                concurrency=concurrency,
            )
            self._events.add_source(made)
            return handler

        return register

    async def accept(
        self,
        source: str,
        key: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        headers: Mapping[str, str] | None = None,
        within: object = None,
    ) -> Accepted:
        """Store a message once per source and key; says whether it was new. Nothing is applied yet.

        ``key`` is the source's own id of the message. With ``within`` it joins the caller's
        transaction. Raises as :meth:`publish` does.
        """
        message = self._events.writer.inbound(source, key, payload, headers=headers)
        handled = self._events.sources.get(source)
        if handled is not None and isinstance(payload, str | bytes | bytearray):
            handled.refuse_text(payload, message)
        (answer,) = await self._commit(effects_of(message=message), within)
        return accepted(answer)

    def drain(self, source: str, /) -> Drain:
        """A drain to drive by hand: ``tally = await app.drain("stripe").run_once()``."""
        return self._events.drain(source)

    # -- operating -------------------------------------------------------------------------------

    async def message_backlog(self, *, limit: int = 1000) -> list[MessageBacklog]:
        """The messages that wait in each stream of outbox and inbox, each counted up to
        ``limit``.
        """
        return await (await self._opened()).message_backlog(limit=limit)


def accepted(answer: Enqueued) -> Accepted:
    """The meaning of the store's answer to an inbound message."""
    return Accepted(id=answer.job_id, new=answer.created)


def refuse_bare(name: object, verb: str) -> None:
    """Raise ``InvalidArgument`` for a decorator without its parentheses: it would register nothing.

    ``@app.outbox`` hands the function over in the place of the name.
    """
    if callable(name):
        raise InvalidArgument(
            f'@app.{verb} needs parentheses and a name, as in @app.{verb}("mail"): as it is '
            "written, the function would never be called"
        )
