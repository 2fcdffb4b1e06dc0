"""Wake-ups as plain messages of a NATS server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription

from offpath.store.wakes.bus import ANSWERS_IN, TaskBus


async def _quiet(_error: Exception) -> None:
    """Leave it to whoever sends or hears: the driver would print it."""


class NatsBus(TaskBus):
    """A subject of a NATS server."""

    errors = (nats.errors.Error, OSError)

    def __init__(self, url: str, channel: str) -> None:
        super().__init__(url, channel)
        self._client: Client | None = None

    async def _made(self) -> Client:
        client = Client()
        await client.connect(
            # The bus connects anew by itself, and then looks for what it has missed.
            self._url,
            connect_timeout=ANSWERS_IN,
            allow_reconnect=False,
            error_cb=_quiet,
        )
        return client

    async def _open(self) -> None:
        # The connection that failed before may be open still, and each try would leave one.
        await self._shut()
        self._client = await self._made()

    async def _publish(self, payload: bytes) -> None:
        if self._client is not None:
            await self._client.publish(self._channel, payload)
            await self._client.flush(ANSWERS_IN)

    async def _shut(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @asynccontextmanager
    async def _subscribed(self) -> AsyncIterator[AsyncIterator[bytes]]:
        client = await self._made()
        try:
            line = await client.subscribe(self._channel)
            await client.flush(ANSWERS_IN)  # the server has it
            yield _messages(line)
        finally:
            await client.close()


async def _messages(line: Subscription) -> AsyncIterator[bytes]:
    async for message in line.messages:
        yield message.data
