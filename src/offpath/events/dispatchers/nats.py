"""Events to NATS JetStream."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, json

from offpath.events.dispatcher import Event, Outcomes, Undeliverable
from offpath.events.dispatchers.broker_names import is_name, new_resolver, numbered
from offpath.events.dispatchers.link import (
    Link,
    NameTemplate,
    NotAcknowledged,
    addresses,
    event_headers,
    extra,
    further,
    shown,
    told,
    wait_limit,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from nats.aio.client import Client
    from nats.aio.msg import Msg

MESSAGE_ID = "Nats-Msg-Id"
"""The header by which JetStream drops what it has already."""
_SUBJECT = re.compile(r"[^\s.*>\x00]+(\.[^\s.*>\x00]+)*")
_HEADER = re.compile(r"[!-9;-~]+")
_OVERSIZED = 10_054
"""JetStream's code for a message over the stream's own size limit."""
_SET_BY_US = frozenset(
    {
        "servers",
        "allow_reconnect",
        "max_reconnect_attempts",
        "connect_timeout",
        "error_cb",
        "closed_cb",
        "disconnected_cb",
    }
)


class _Refusal(Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Ack(Struct, frozen=True):
    stream: str = ""
    seq: int = 0
    error: _Refusal | None = None


_ack = json.Decoder(_Ack).decode


class _NatsSession:
    """One connection, and who waits on it for which acknowledgement."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.inbox = client.new_inbox()
        self.waiting: dict[str, asyncio.Future[Exception | None]] = {}
        self.last_error = ""
        self._numbers = itertools.count()

    def expect(self) -> tuple[str, asyncio.Future[Exception | None]]:
        """A subject for one answer, and the future that gets it."""
        reply = f"{self.inbox}.{next(self._numbers)}"
        future = self.waiting[reply] = asyncio.get_running_loop().create_future()
        return reply, future

    async def answered(self, message: Msg) -> None:
        """An answer came, perhaps after nobody waits for it any more."""
        future = self.waiting.pop(message.subject, None)
        if future is not None and not future.done():
            future.set_result(_refusal(message))

    async def lost(self) -> None:
        """There is no connection any more: no answer will come."""
        waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_result(NotAcknowledged("the connection to NATS was lost" + self.said()))

    def said(self) -> str:
        """The last error of the server, for a message."""
        return f" ({self.last_error})" if self.last_error else ""


def _refusal(message: Msg) -> Exception | None:
    """The error that an answer stands for; None is an acknowledgement."""
    if not message.data and (message.headers or {}).get("Status") == "503":
        return NotAcknowledged(
            "no JetStream stream takes this subject: create one whose subjects match it "
            "(nats stream add)"
        )
    try:
        answer = _ack(message.data)
    except ValueError:  # no JSON, or no UTF-8
        answer = _Ack()
    if answer.error is not None:
        text = f"JetStream refused it: {answer.error.description} ({answer.error.err_code})"
        oversized = answer.error.err_code == _OVERSIZED
        return Undeliverable(text) if oversized else NotAcknowledged(text)
    if not answer.stream or not answer.seq:
        return NotAcknowledged("something that is not JetStream answered on this subject")
    return None


class NatsDispatcher:
    """Publishes events to NATS JetStream, all of a batch in flight at once.

    **Delivered** means that JetStream acknowledged it: a stream has stored it, as durably as that
    stream is set up (file or memory, replicas). Bytes written, or a subscriber without a stream,
    never count.

    **Duplicates**: the event's id is the header ``Nats-Msg-Id``, so that JetStream itself drops
    what it has within the stream's duplicate window (2 minutes by default). Later repeats are for
    the receiver to drop, by the same header.

    The body is the payload as stored (JSON); headers are the event's own and ``Offpath-Topic``,
    ``Offpath-Stream``, ``Offpath-Key``, ``Offpath-Created``.

    What no stream takes, what is not acknowledged in time, and what meets a lost connection fails
    and is due again; the next attempt connects anew. What is over the server's or the stream's
    size limit, or cannot be a subject or a header, is ``Undeliverable``: a dead letter at once.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        /,
        *,
        subject: str,
        timeout: float | timedelta = 10.0,
        connect_timeout: float | timedelta = 5.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``subject`` may have the fields ``{topic}``, ``{stream}`` and ``{key}``.

        ``timeout`` is for the acknowledgements of one batch and should be below the outbox's own;
        ``options`` go to ``nats.connect``, as ``{"user_credentials": …}`` or ``{"tls": …}``.
        Raises ``InvalidArgument`` and, without the extra ``nats``, ``MissingExtra``.
        """
        self._nats = extra("nats", "nats")
        self._urls = addresses(servers, ("nats", "tls", "ws", "wss"))
        self._subject = NameTemplate(subject, "subject")
        self._timeout = wait_limit(timeout, "timeout")
        self._connect_timeout = wait_limit(connect_timeout, "connect_timeout")
        self._options = further(options, _SET_BY_US)
        self._resolver = new_resolver()
        self._link = Link(self._connect, lambda session: session.client.is_connected)

    def __repr__(self) -> str:
        """Show where to; never who as."""
        return f"<NatsDispatcher {shown(self._urls)} subject={self._subject.template}>"

    async def open(self) -> None:
        """Connect. Raises ``NotAcknowledged`` when no server can be reached."""
        await self._link.get()

    async def close(self) -> None:
        """Close the connection."""
        session = await self._link.take()
        if session is not None:
            await session.client.close()

    async def dispatch_many(self, events: Sequence[Event], /) -> Outcomes:
        """Publish them all, then wait for all acknowledgements."""
        session = await self._link.get()
        outcomes: list[Exception | None] = [None] * len(events)
        sent: dict[int, tuple[str, asyncio.Future[Exception | None]]] = {}
        try:
            async with asyncio.timeout(self._timeout):
                for at, event in enumerate(events):
                    sent[at] = expected = session.expect()
                    if (refusal := await self._publish(session, event, expected[0])) is not None:
                        outcomes[at] = refusal
                        del sent[at]
                        session.waiting.pop(expected[0], None)
                if sent:
                    await asyncio.wait([future for _, future in sent.values()])
        except TimeoutError:
            pass  # each is told apart below
        finally:
            for reply, _ in sent.values():
                session.waiting.pop(reply, None)
        late = f"NATS did not acknowledge it within {self._timeout:g} s{session.said()}"
        for at in range(len(events)):
            if at in sent:
                future = sent[at][1]
                outcomes[at] = future.result() if future.done() else NotAcknowledged(late)
            elif outcomes[at] is None:
                outcomes[at] = NotAcknowledged(late)
        return outcomes

    async def _publish(self, session: _NatsSession, event: Event, reply: str) -> Exception | None:
        """Write one; what is wrong with it is its own outcome."""
        client = session.client
        try:
            subject, headers, body = self._parts(event, client.max_payload)
        except Undeliverable as error:
            return error
        if not client.is_connected:
            return NotAcknowledged("the connection to NATS was lost" + session.said())
        try:
            await client.publish(subject, body, reply=reply, headers=headers)
        except (self._nats.errors.Error, OSError) as error:
            return NotAcknowledged(f"NATS: {told(error, self._urls)}")
        return None

    def _parts(self, event: Event, most: int) -> tuple[str, dict[str, str], bytes]:
        """Subject, headers and body. Raises ``Undeliverable``."""
        subject = self._subject.of(event)
        if _SUBJECT.fullmatch(subject) is None:
            raise Undeliverable(f"{subject[:200]!r} cannot be a subject of NATS")
        headers = event_headers(event)
        headers[MESSAGE_ID] = event.id
        for name in headers:
            if _HEADER.fullmatch(name) is None:
                raise Undeliverable(f"{name[:200]!r} cannot be the name of a header of NATS")
        body = event.body.encode()
        # the server counts both, and closes the connection on which more arrives
        size = len(body) + 12 + sum(len(f"{k}: {v}\r\n".encode()) for k, v in headers.items())
        if size > most:
            raise Undeliverable(
                f"body and headers have {size} bytes; the NATS server takes {most} (max_payload)"
            )
        return subject, headers, body

    async def _connect(self) -> _NatsSession:
        """A connection to the first server that answers. Raises ``NotAcknowledged``."""
        urls = list(self._urls)
        if not self._options.get("dont_randomize"):
            random.shuffle(urls)
        try:
            async with asyncio.timeout(self._connect_timeout):
                *others, last = urls
                for url in others:
                    with suppress(self._nats.errors.Error, OSError):
                        return await self._connect_to(url)
                return await self._connect_to(last)
        except (self._nats.errors.Error, OSError, TimeoutError) as error:
            raise NotAcknowledged(
                f"cannot connect to {shown(self._urls)}: {told(error, self._urls)}"
            ) from None

    async def _connect_to(self, url: str) -> _NatsSession:
        client = self._nats.NATS()
        session = _NatsSession(client)

        async def noted(error: Exception) -> None:
            session.last_error = told(error, self._urls)

        servers, more = [url], {}
        host = urlsplit(url).hostname
        if url.startswith(("nats:", "tls:")) and host is not None and is_name(host):
            # over a web socket the name is a part of the request: aiohttp looks it up
            servers, more = await numbered(self._resolver, url, 4222), {"tls_hostname": host}
        try:
            await client.connect(
                servers=servers,
                # The relay spaces the attempts; what is written while there is no connection
                # would be kept in memory and sent at some time, perhaps after its lease.
                allow_reconnect=False,
                max_reconnect_attempts=1,
                connect_timeout=self._connect_timeout,
                error_cb=noted,
                closed_cb=session.lost,
                disconnected_cb=session.lost,
                **{"reconnect_time_wait": 0.1, "ping_interval": 20, **more, **self._options},
            )
            await client.subscribe(f"{session.inbox}.*", cb=session.answered)
        except BaseException:
            await client.close()
            raise
        return session
