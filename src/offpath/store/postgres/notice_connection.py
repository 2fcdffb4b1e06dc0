"""The connection over which other processes are told to look: nobody waits for its answers.

A notice in the transaction that it tells of would be cheaper by a message. But the server holds a
lock on the whole database from such a notice until its commit is on the disk, so that transactions
with one would follow each other instead of sharing that write. A notice alone writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final

import psycopg
from psycopg import sql as compose
from psycopg.pq import ExecStatus

from offpath.store.hints import Hint
from offpath.store.postgres.listener import channel
from offpath.store.postgres.pool import NamedConnection
from offpath.store.wakes.port import NotSent

ANSWERS_IN: Final = 5.0
"""Seconds in which the server has to answer a notice; the connection is made anew otherwise."""
_LAST_WORD: Final = 1.0
"""Seconds for which a store that is closed waits until its last notice has arrived."""


class NoticeConnection:
    """Sends notices over a connection of its own, which is made at the first of them.

    ``connected`` is told the server process behind each new connection.
    """

    def __init__(self, conninfo: str, schema: str, connected: Callable[[int], None]) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._connected = connected
        self._connection: NamedConnection | None = None
        self._sent_at = 0.0

    @property
    def ready(self) -> bool:
        """True if there is a connection to send over."""
        return self._connection is not None and not self._connection.closed

    async def connect(self) -> None:
        """Connect, if need be. Raises ``NotSent``."""
        if self.ready:
            return
        try:
            self._connection = await NamedConnection.connect(
                self._conninfo, autocommit=True, prepare_threshold=None
            )
        except (psycopg.Error, OSError, TimeoutError) as error:
            raise NotSent(str(error)) from error
        self._sent_at = asyncio.get_running_loop().time()
        self._connected(self._connection.info.backend_pid)

    def send(self, hints: Collection[Hint]) -> bool:
        """Send a notice of each; False while the one before is not answered.

        Raises ``NotSent`` where the connection is lost: the next notice needs another one.
        """
        connection = self._connection
        if connection is None or connection.closed:
            raise NotSent("not connected")
        now = asyncio.get_running_loop().time()
        try:
            # A connection takes no second query before the first one is answered.
            if not self._answered(connection):
                if now - self._sent_at > ANSWERS_IN:
                    raise NotSent(f"no answer in {ANSWERS_IN:.0f} s")
                return False
            connection.pgconn.send_query(_text(self._schema, tuple(hints)))
            connection.pgconn.flush()
        except (psycopg.Error, NotSent) as error:
            connection.pgconn.finish()
            self._connection = None
            raise NotSent(str(error)) from error
        self._sent_at = now
        return True

    async def close(self) -> None:
        """End the connection, when what was sent has arrived."""
        connection, self._connection = self._connection, None
        if connection is None or connection.closed:
            return
        with contextlib.suppress(psycopg.Error, NotSent, TimeoutError):
            async with asyncio.timeout(_LAST_WORD):
                await self._all_answered(connection)
        connection.pgconn.finish()

    async def _all_answered(self, connection: NamedConnection) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(connection.fileno(), readable.set)
        try:
            while not self._answered(connection):
                await readable.wait()
                readable.clear()
        finally:
            loop.remove_reader(connection.fileno())

    def _answered(self, connection: NamedConnection) -> bool:
        """True if nothing is under way. Reads what is there, and never waits."""
        server = connection.pgconn
        server.consume_input()
        if connection.readable():  # behind the last word of a server that hung up is the end
            server.consume_input()
        while not server.is_busy():
            result = server.get_result()
            if result is None:
                return True
            if result.status == ExecStatus.FATAL_ERROR:
                raise NotSent(result.error_message.decode(errors="replace"))
        return False


@lru_cache(maxsize=64)
def _text(schema: str, hints: tuple[Hint, ...]) -> bytes:
    """One message of all notices. A command names no function that a path could replace."""
    names = (compose.Identifier(channel(schema, hint)) for hint in hints)
    return (
        compose.SQL("; ")
        .join(compose.SQL("notify {}").format(name) for name in names)
        .as_bytes(None)
    )
