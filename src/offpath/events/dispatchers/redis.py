"""Events to Redis streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import json

from offpath.errors import InvalidArgument
from offpath.events.dispatcher import Event, Outcomes, Undeliverable
from offpath.events.dispatchers.broker_names import by_address, new_resolver
from offpath.events.dispatchers.link import (
    NameTemplate,
    NotAcknowledged,
    addresses,
    extra,
    further,
    shown,
    told,
    wait_limit,
)
from offpath.model import checks

if TYPE_CHECKING:
    from datetime import timedelta

    from redis.asyncio import Redis

_SET_BY_US = frozenset(
    {"retry", "retry_on_timeout", "retry_on_error", "socket_timeout", "socket_connect_timeout"}
)


class RedisDispatcher:
    """Adds events to streams of Redis or Valkey, a batch in one round trip.

    **Delivered** means that the server answered with the entry's id: it is in the server's memory.
    Whether it survives a crash is the server's setting: with ``appendfsync always`` it is on disk
    by then, with ``everysec`` up to a second of entries may go, without the append-only file all
    since the last snapshot. With ``replicas`` it counts only when so many replicas have it, too.

    **Duplicates** are for the receiver to drop, by the field ``id``: the event's id, the same at
    every attempt. Redis itself drops none.

    An entry has the fields ``id``, ``topic``, ``stream``, ``key`` (empty for none), ``body`` (the
    payload as stored: JSON), ``headers`` (a JSON object) and ``created_at`` (ISO 8601). What the
    server refuses, and what meets a lost connection, fails and is due again.
    """

    def __init__(
        self,
        url: str,
        /,
        *,
        stream: str,
        maxlen: int | None = None,
        replicas: int = 0,
        replica_timeout: float | timedelta = 1.0,
        timeout: float | timedelta = 10.0,
        connect_timeout: float | timedelta = 5.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``stream`` names the stream and may have the fields ``{topic}``, ``{stream}``, ``{key}``.

        ``maxlen`` trims the stream to about so many entries, read or not: without it, trimming is
        yours. ``timeout`` is for the answers of one batch and should be below the outbox's own; of
        it, ``replica_timeout`` is what the server waits for ``replicas``. ``options`` go to
        ``redis.asyncio.Redis.from_url``, as ``{"ssl_ca_certs": …}``.
        Raises ``InvalidArgument`` and, without the extra ``redis``, ``MissingExtra``.
        """
        self._redis = extra("redis.asyncio", "redis")
        self._failures = extra("redis.exceptions", "redis")
        self._retry = extra("redis.asyncio.retry", "redis").Retry
        self._backoff = extra("redis.backoff", "redis").NoBackoff
        self._urls = addresses((url,), ("redis", "rediss", "unix"))
        self._stream = NameTemplate(stream, "stream")
        self._maxlen = (
            None if maxlen is None else checks.integer(maxlen, "maxlen", least=1, most=2**53)
        )
        self._replicas = checks.integer(replicas, "replicas", least=0, most=1_000)
        self._replica_timeout = wait_limit(replica_timeout, "replica_timeout")
        self._timeout = wait_limit(timeout, "timeout")
        if self._replicas and self._replica_timeout >= self._timeout:
            raise InvalidArgument("replica_timeout must be less than timeout")
        self._connect_timeout = wait_limit(connect_timeout, "connect_timeout")
        self._options = further(options, _SET_BY_US)
        self._resolver = new_resolver()
        self._client: Redis | None = None

    def __repr__(self) -> str:
        """Show where to; never who as."""
        return f"<RedisDispatcher {shown(self._urls)} stream={self._stream.template}>"

    async def open(self) -> None:
        """Connect. Raises ``NotAcknowledged`` when the server cannot be reached."""
        client = self._connected()
        try:
            await client.ping()
        except (self._failures.RedisError, OSError) as error:
            where = shown(self._urls)
            raise NotAcknowledged(f"cannot connect to {where}: {told(error, self._urls)}") from None

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _connected(self) -> Redis:
        if self._client is None:
            self._client = client = self._redis.Redis.from_url(
                self._urls[0],
                # A repeat by the client would add what was added already; the relay repeats.
                retry=self._retry(self._backoff(), 0),
                socket_timeout=self._timeout,
                socket_connect_timeout=self._connect_timeout,
                **self._options,
            )
            if not self._urls[0].startswith("unix"):
                pool = client.connection_pool
                pool.connection_class = by_address(pool.connection_class, self._resolver)
        return self._client

    async def dispatch_many(self, events: Sequence[Event], /) -> Outcomes:
        """Add them all, in one pipeline."""
        outcomes: list[Exception | None] = [None] * len(events)
        sent: list[int] = []
        pipeline = self._connected().pipeline(transaction=False)
        for at, event in enumerate(events):
            try:
                name = self._stream.of(event)
            except Undeliverable as error:
                outcomes[at] = error
                continue
            _ = pipeline.xadd(name, _fields(event), maxlen=self._maxlen, approximate=True)
            sent.append(at)
        if not sent:
            return outcomes
        if self._replicas:
            _ = pipeline.execute_command("WAIT", self._replicas, int(self._replica_timeout * 1_000))
        try:
            answers = await pipeline.execute(raise_on_error=False)
        except (self._failures.RedisError, OSError) as error:
            failed: NotAcknowledged | None = NotAcknowledged(f"Redis: {told(error, self._urls)}")
            answers = [failed] * len(sent)
        else:
            failed = self._too_few(answers.pop()) if self._replicas else None
        for at, answer in zip(sent, answers, strict=True):
            outcomes[at] = self._outcome(answer, failed)
        return outcomes

    def _outcome(self, answer: object, failed: NotAcknowledged | None) -> Exception | None:
        if isinstance(answer, Exception) and not isinstance(answer, NotAcknowledged):
            return NotAcknowledged(f"Redis refused it: {told(answer, self._urls)}")
        return failed

    def _too_few(self, answer: object) -> NotAcknowledged | None:
        """The error that the answer to WAIT stands for; None when enough replicas have all."""
        if isinstance(answer, Exception):
            return NotAcknowledged(f"Redis: {told(answer, self._urls)}")
        if isinstance(answer, int) and answer >= self._replicas:
            return None
        return NotAcknowledged(
            f"{answer} of {self._replicas} replicas had it within {self._replica_timeout:g} s"
        )


def _fields(event: Event) -> dict[Any, Any]:
    return {
        "id": event.id,
        "topic": event.topic,
        "stream": event.stream,
        "key": event.key or "",
        "body": event.body,
        "headers": json.encode(dict(event.headers)),
        "created_at": event.created_at.isoformat() if event.created_at else "",
    }
