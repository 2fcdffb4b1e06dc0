"""Events to Kafka."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from offpath.errors import InvalidArgument
from offpath.events.dispatcher import Event, Outcomes, Undeliverable
from offpath.events.dispatchers.link import (
    Link,
    NameTemplate,
    NotAcknowledged,
    event_headers,
    extra,
    further,
    told,
    wait_limit,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from aiokafka import AIOKafkaProducer

_SET_BY_US: Final = frozenset(
    {"bootstrap_servers", "acks", "enable_idempotence", "transactional_id", "request_timeout_ms"}
)
_SERVER: Final = re.compile(r"[^\s/@:]+(:\d{1,5})?|\[[0-9a-fA-F:]+\](:\d{1,5})?")
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_STOP: Final = 1.0
"""Seconds in which a producer is closed: it would go on sending what it still has."""


class KafkaDispatcher:
    """Produces events to topics of Kafka, all of a batch in flight at once.

    **Delivered** means that the partition's leader and all replicas in sync have it
    (``acks=all``, idempotent). How many must be in sync is the topic's ``min.insync.replicas``.
    ``idempotent=False`` is for servers that offer no idempotent producers.

    **Duplicates** are for the receiver to drop, by the header ``Offpath-Id``: the event's id, the
    same at every attempt. Idempotence drops repeats of one connection only.

    The key of a record is the event's key, which also says the partition. The body is the payload
    as stored (JSON); headers are the event's own and ``Offpath-Id``, ``-Topic``, ``-Stream``,
    ``-Key``, ``-Created``.

    What is too large for the producer or the broker, or has no possible topic, is
    ``Undeliverable``: a dead letter at once, alone. What is not acknowledged in time fails and is
    due again, and the producer is closed, so that nothing is sent after its lease.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        /,
        *,
        topic: str = "{topic}",
        idempotent: bool = True,
        timeout: float | timedelta = 10.0,
        connect_timeout: float | timedelta = 5.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``servers`` are ``host:port``; ``topic`` may have ``{topic}``, ``{stream}``, ``{key}``.

        ``timeout`` is for the acknowledgements of one batch and should be below the outbox's own;
        ``options`` go to ``aiokafka.AIOKafkaProducer``, as ``{"security_protocol": …}``. Raises
        ``InvalidArgument`` and, without the extra ``kafka``, ``MissingExtra``.
        """
        self._kafka = extra("aiokafka", "kafka")
        self._errors = extra("aiokafka.errors", "kafka")
        self._too_large: tuple[type[Exception], ...] = (
            self._errors.MessageSizeTooLargeError,
            self._errors.RecordListTooLargeError,
        )
        self._servers = _checked((servers,) if isinstance(servers, str) else tuple(servers))
        self._topic = NameTemplate(topic, "topic")
        self._idempotent = bool(idempotent)
        self._timeout = wait_limit(timeout, "timeout")
        self._connect_timeout = wait_limit(connect_timeout, "connect_timeout")
        self._options = further(options, _SET_BY_US)
        self._link: Link[AIOKafkaProducer] = Link(self._connect, lambda _producer: True)

    def __repr__(self) -> str:
        """Show where to; never who as."""
        return f"<KafkaDispatcher {','.join(self._servers)} topic={self._topic.template}>"

    async def open(self) -> None:
        """Connect. Raises ``NotAcknowledged`` when no server can be reached."""
        await self._link.get()

    async def close(self) -> None:
        """Close the connections."""
        await _stopped(await self._link.take())

    async def _connect(self) -> AIOKafkaProducer:
        producer = self._kafka.AIOKafkaProducer(
            bootstrap_servers=list(self._servers),
            acks="all",
            enable_idempotence=self._idempotent,
            request_timeout_ms=max(1, int(self._timeout * 1_000)),
            **self._options,
        )
        try:
            async with asyncio.timeout(self._connect_timeout):
                await producer.start()
        except BaseException as error:
            await _stopped(producer)
            if not isinstance(error, self._errors.KafkaError | OSError | TimeoutError):
                raise
            where = ",".join(self._servers)
            raise NotAcknowledged(f"cannot connect to {where}: {self._told(error)}") from None
        made: AIOKafkaProducer = producer
        return made

    async def dispatch_many(self, events: Sequence[Event], /) -> Outcomes:
        """Produce them all, then wait for all acknowledgements."""
        producer = await self._link.get()
        sending = [asyncio.create_task(self._sent(producer, event)) for event in events]
        try:
            _, late = await asyncio.wait(sending, timeout=self._timeout)
        except asyncio.CancelledError:
            for one in sending:
                one.cancel()
            raise
        for one in late:
            one.cancel()
        if late:
            await asyncio.wait(late)
            # what is not acknowledged stays in the producer, which would send it at some time
            await _stopped(await self._link.take())
        text = f"Kafka did not acknowledge it within {self._timeout:g} s"
        return [NotAcknowledged(text) if one in late else one.result() for one in sending]

    async def _sent(self, producer: AIOKafkaProducer, event: Event) -> Exception | None:
        """Produce one and wait for its acknowledgement; what is wrong with it is its outcome."""
        try:
            topic = self._topic.of(event)
            if _TOPIC.fullmatch(topic) is None:
                return Undeliverable(f"{topic[:200]!r} cannot be a topic of Kafka")
            headers = event_headers(event) | {"Offpath-Id": event.id}
            future = await producer.send(
                topic,
                event.body.encode(),
                key=None if event.key is None else event.key.encode(),
                headers=[(name, text.encode()) for name, text in headers.items()],
            )
            await future
        except Undeliverable as error:
            return error
        except self._too_large as error:
            size = len(event.body.encode())
            return Undeliverable(f"the record has {size} bytes of body: {self._told(error)}")
        except (self._errors.KafkaError, OSError) as error:
            return NotAcknowledged(f"Kafka: {self._told(error)}")
        return None

    def _told(self, error: BaseException) -> str:
        text = told(error, ())
        for name, value in self._options.items():
            if "password" in name and isinstance(value, str) and value:
                text = text.replace(value, "***")
        return text


def _checked(servers: tuple[str, ...]) -> tuple[str, ...]:
    if not servers or not all(_SERVER.fullmatch(str(one)) for one in servers):
        raise InvalidArgument("servers of Kafka are texts host:port, without a scheme or a user")
    return servers


async def _stopped(producer: AIOKafkaProducer | None) -> None:
    if producer is not None:
        with suppress(Exception):  # it is given up: whatever it says now changes nothing
            async with asyncio.timeout(_STOP):
                await producer.stop()
