"""The connection that shows that a process lives: it hears a channel of its own, and ends with it.

The server frees it the moment the process is gone, however it ends, and tells everybody how many
hear a channel (``PUBSUB NUMSUB``). Nothing is published there: a connection on which much is told
would be cut while its reader is busy.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

_log = logging.getLogger("offpath.store")

_EVERY: Final = 0.5
"""Seconds between two looks at the connection, and between two tries to make it. Others must find
it missing for longer (``workers.MISSING``), so a cut that is mended at once does no harm."""

_shown: weakref.WeakSet[RedisPresence] = weakref.WeakSet()


class RedisPresence:
    """The presence of one process, over one connection that it makes again when it is cut."""

    def __init__(self, patience: float) -> None:
        self.token = secrets.token_hex(8)
        """The name of the channel, which no other process has."""
        self._patience = patience
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._descriptor: int | None = None

    async def show(self, make: Callable[[], AbstractConnection], channel: str) -> None:
        """Begin to be there; returns when the first try is over."""
        if self._task is None:
            _shown.add(self)
            self._task = asyncio.create_task(self._stay(make, channel), name="offpath-presence")
        await self._tried.wait()

    async def end(self) -> None:
        """Be gone. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _stay(self, make: Callable[[], AbstractConnection], channel: str) -> None:
        while True:
            connection = make()
            try:
                await self._hold(connection, channel)
            except (RedisError, OSError) as error:  # a time-out is an OSError
                _log.debug("the presence at Redis is cut: %s", type(error).__name__)
            finally:
                was_there, self._descriptor = self._descriptor, None
                with suppress(RedisError, OSError):
                    await connection.disconnect()
            # Also where it failed: who registers must not wait for a server that is away.
            self._tried.set()
            # At once after a cut, so that others do not miss it; otherwise at the pace of the
            # tries.
            await asyncio.sleep(0 if was_there else _EVERY)

    async def _hold(self, connection: AbstractConnection, channel: str) -> None:
        async with asyncio.timeout(self._patience):
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command("SUBSCRIBE", channel)
            await connection.read_response()
        if (writer := connection._writer) is not None:  # noqa: SLF001 - the driver shows it nowhere
            self._descriptor = writer.get_extra_info("socket").fileno()
        self._tried.set()
        while True:  # what lies in between forgets a silent connection, and tells one side only
            await asyncio.sleep(_EVERY)
            async with asyncio.timeout(self._patience):
                await connection.send_command("PING")
                await connection.read_response()

    def forget_descriptor(self) -> None:
        """In a forked child: close the inherited socket, which would keep its parent there."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)


def _in_child() -> None:
    for presence in tuple(_shown):
        presence.forget_descriptor()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
