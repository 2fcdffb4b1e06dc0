"""Wake-ups as published messages of a Redis or Valkey server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from offpath.store.wakes.bus import ANSWERS_IN, TaskBus


class RedisBus(TaskBus):
    """A channel of a Redis server."""

    errors = (RedisError, OSError)

    def __init__(self, url: str, channel: str) -> None:
        super().__init__(url, channel)
        # The client knows the schemes of Redis alone.
        self._plain = url.replace("valkey", "redis", 1) if url.startswith("valkey") else url
        self._client: Redis | None = None

    def _made(self) -> Redis:
        return Redis.from_url(
            self._plain, socket_connect_timeout=ANSWERS_IN, health_check_interval=30
        )

    async def _open(self) -> None:
        # The connection that failed before may be open still, and each try would leave one.
        await self._shut()
        self._client = self._made()
        await self._client.ping()

    async def _publish(self, payload: bytes) -> None:
        if self._client is not None:
            await self._client.publish(self._channel, payload)

    async def _shut(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def _subscribed(self) -> AsyncIterator[AsyncIterator[bytes]]:
        client = self._made()
        try:
            async with client.pubsub() as line:
                await line.subscribe(self._channel)
                await line.parse_response(block=True)  # the server has it
                yield _messages(line)
        finally:
            await client.aclose()


async def _messages(line: PubSub) -> AsyncIterator[bytes]:
    async for message in line.listen():
        if message["type"] == "message":
            yield message["data"]
