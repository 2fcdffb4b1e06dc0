"""Events to RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from offpath.errors import InvalidArgument
from offpath.events.dispatcher import Event, Outcomes, Undeliverable
from offpath.events.dispatchers.broker_names import is_name, named, new_resolver, numbered
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
from offpath.model import checks

if TYPE_CHECKING:
    from datetime import timedelta

    from aio_pika.abc import (
        AbstractChannel,
        AbstractConnection,
        AbstractExchange,
        AbstractMessage,
    )

MOST = 16 * 1024 * 1024
"""The largest body that RabbitMQ 4 takes by default, in bytes."""
_SHORT = 255
"""The most bytes of a routing key, a type, or the name of a header."""
_SET_BY_US = frozenset({"url", "timeout"})


@dataclass(frozen=True, slots=True)
class _RabbitSession:
    connection: AbstractConnection
    channel: AbstractChannel
    exchange: AbstractExchange

    def alive(self) -> bool:
        """True if it can be published on."""
        return not (self.connection.is_closed or self.channel.is_closed)


class RabbitDispatcher:
    """Publishes events to an exchange of RabbitMQ, all of a batch in flight at once.

    **Delivered** means that the broker confirmed it: every queue that it was routed to has it, and
    durable queues have it on disk (messages are persistent). A message that no queue takes comes
    back (``mandatory``) and has failed; so has one that the broker refuses or does not confirm in
    time, and one that meets a lost connection. They are due again; the next attempt connects anew.

    **Duplicates** are for the receiver to drop, by ``message_id``: the event's id, the same at
    every attempt. RabbitMQ itself drops none.

    The body is the payload as stored (JSON), ``type`` the topic, ``timestamp`` when it was
    published; headers are the event's own and ``Offpath-Topic``, ``Offpath-Stream``,
    ``Offpath-Key``, ``Offpath-Created``. The exchange must be there: it is not declared here.
    """

    def __init__(
        self,
        url: str,
        /,
        *,
        exchange: str,
        routing_key: str = "{topic}",
        timeout: float | timedelta = 10.0,
        connect_timeout: float | timedelta = 5.0,
        max_bytes: int = MOST,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``exchange`` ``""`` is the default one, where the routing key is the queue's name.

        ``routing_key`` may have the fields ``{topic}``, ``{stream}`` and ``{key}``. ``timeout`` is
        for the confirms of one batch and should be below the outbox's own. A body of more than
        ``max_bytes`` is ``Undeliverable``: the broker would close the channel of all for it.
        ``options`` go to ``aio_pika.connect``, as ``{"ssl_context": …}``.
        Raises ``InvalidArgument`` and, without the extra ``rabbitmq``, ``MissingExtra``.
        """
        self._pika = extra("aio_pika", "rabbitmq")
        self._urls = addresses((url,), ("amqp", "amqps"))
        if len(str(exchange).encode()) > _SHORT:
            raise InvalidArgument(f"exchange must be a name of at most {_SHORT} bytes")
        self._exchange = exchange
        self._routing_key = NameTemplate(routing_key, "routing_key")
        self._timeout = wait_limit(timeout, "timeout")
        self._connect_timeout = wait_limit(connect_timeout, "connect_timeout")
        self._most = checks.integer(max_bytes, "max_bytes", least=1, most=2**31)
        self._options = further(options, _SET_BY_US)
        self._resolver = new_resolver()
        self._link = Link(self._connect, _RabbitSession.alive)

    def __repr__(self) -> str:
        """Show where to; never who as."""
        where = f"exchange={self._exchange!r} routing_key={self._routing_key.template}"
        return f"<RabbitDispatcher {shown(self._urls)} {where}>"

    async def open(self) -> None:
        """Connect. Raises ``NotAcknowledged`` when that fails or the exchange is not there."""
        await self._link.get()

    async def close(self) -> None:
        """Close the connection."""
        session = await self._link.take()
        if session is not None:
            await session.connection.close()

    async def dispatch_many(self, events: Sequence[Event], /) -> Outcomes:
        """Publish them all, then wait for all confirms."""
        exchange = (await self._link.get()).exchange
        tasks = [asyncio.create_task(self._publish(exchange, event)) for event in events]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks, timeout=self._timeout)
        finally:
            open_ones = [task for task in tasks if not task.done()]
            for task in open_ones:
                task.cancel()
        late = NotAcknowledged(f"RabbitMQ did not confirm it within {self._timeout:g} s")
        overdue = set(open_ones)
        return [late if task in overdue else self._outcome(task) for task in tasks]

    def _outcome(self, task: asyncio.Task[Exception | None]) -> Exception | None:
        if task.cancelled():  # the library cancels what waits on a connection that it closes
            return NotAcknowledged("the connection to RabbitMQ was lost")
        error = task.exception()
        if error is None:
            return task.result()
        return NotAcknowledged(f"RabbitMQ: {told(error, self._urls)}")

    async def _publish(self, exchange: AbstractExchange, event: Event) -> Exception | None:
        """Publish one; None when the broker has confirmed it."""
        failures = self._pika.exceptions
        try:
            routing_key, message = self._parts(event)
        except Undeliverable as error:
            return error
        try:
            await exchange.publish(message, routing_key, mandatory=True)
        except failures.PublishError:
            return NotAcknowledged(
                f"no queue takes the routing key {routing_key!r} from the exchange "
                f"{self._exchange!r}: bind one"
            )
        except failures.DeliveryError:  # its own text has the message
            return NotAcknowledged("RabbitMQ refused it (nack): a queue is full or has failed")
        return None

    def _parts(self, event: Event) -> tuple[str, AbstractMessage]:
        """Routing key and message. Raises ``Undeliverable``."""
        routing_key = self._routing_key.of(event)
        headers = event_headers(event)
        for text in (routing_key, event.topic, *headers):
            if len(text.encode()) > _SHORT:
                raise Undeliverable(
                    f"{text[:60]!r}… is over the {_SHORT} bytes that a routing key, a type and the "
                    "name of a header may have"
                )
        body = event.body.encode()
        if len(body) > self._most:
            raise Undeliverable(f"the body has {len(body)} bytes; max_bytes is {self._most}")
        message: AbstractMessage = self._pika.Message(
            body,
            headers=headers,
            message_id=event.id,
            type=event.topic,
            timestamp=event.created_at,
            content_type="application/json",
            content_encoding="utf-8",
            delivery_mode=self._pika.DeliveryMode.PERSISTENT,
        )
        return routing_key, message

    async def _connected(self) -> AbstractConnection:
        """The first of the name's addresses that answers."""
        (url,) = self._urls
        options, host = dict(self._options), urlsplit(url).hostname
        if url.startswith("amqps") and host is not None and is_name(host):
            base = options.get("connection_class", self._pika.Connection)
            options["connection_class"] = named(base, host)
        *others, last = await numbered(self._resolver, url, 5671 if url[4] == "s" else 5672)
        for address in others:
            with suppress(OSError):  # the next address may answer
                return await self._pika.connect(address, **options)  # type: ignore[no-any-return]
        return await self._pika.connect(last, **options)  # type: ignore[no-any-return]

    async def _connect(self) -> _RabbitSession:
        connection: AbstractConnection | None = None
        try:
            async with asyncio.timeout(self._connect_timeout):
                connection = await self._connected()
                channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
                exchange = (
                    await channel.get_exchange(self._exchange, ensure=True)
                    if self._exchange
                    else channel.default_exchange
                )
        except Exception as error:  # noqa: BLE001 - three libraries deep
            if connection is not None:
                await connection.close()
            where = shown(self._urls)
            if isinstance(error, self._pika.exceptions.ChannelNotFoundEntity):
                text = f"{where} has no exchange {self._exchange!r}: declare it"
            else:
                text = f"cannot connect to {where}: {told(error, self._urls)}"
            raise NotAcknowledged(text) from None
        return _RabbitSession(connection, channel, exchange)
