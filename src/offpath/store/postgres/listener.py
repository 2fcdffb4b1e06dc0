"""The connection of our own that is always idle: it hears wake-ups and shows that we live.

It holds an advisory lock for each worker of this process. The server frees it the moment the
process is gone, which others see at once. It runs no long statement, since the server would notice
the death only at its end. Behind a pooler neither works, and nothing here is needed: everything
also polls, and the lease decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import select
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Final

import psycopg
from psycopg import sql as compose

from offpath.store.hints import Hint
from offpath.store.postgres.pool import NamedConnection
from offpath.store.sql import Catalogue, Query

_log = logging.getLogger("offpath.store.postgres")

_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0
_PATIENCE: Final = 10.0

Connection = NamedConnection
_Command = tuple[Query, "asyncio.Future[int]"]

_chance = random.Random()  # noqa: S311 - only spreads retries
_listeners: weakref.WeakSet[Listener] = weakref.WeakSet()


class NotDirect(Exception):
    """A pooler is in between: another server process serves us than the one we were told about."""


class Listener:
    """Listens, and holds presence locks, over one connection that it makes again when cut.

    ``on_deaf`` is called with the keys whose locks are not held any more when it could not be
    made again at once.
    """

    def __init__(
        self,
        conninfo: str,
        schema: str,
        sql: Catalogue,
        emit: Callable[[Hint], None],
        on_deaf: Callable[[list[int]], Awaitable[None]],
    ) -> None:
        self._conninfo = conninfo
        self._sql = sql
        self._emit = emit
        self._on_deaf = on_deaf
        self._channels = {channel(schema, hint).encode(): hint for hint in Hint}
        self._wanted: set[int] = set()
        self._held: set[int] = set()
        self._commands: list[_Command] = []
        self._wake = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._descriptor: int | None = None
        self._cut_at: float | None = None
        self.own_pids: set[int] = set()
        """Server processes that we notify through: what they tell, we know already."""
        self.hears = False

    # -- for the store -----------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background."""
        if self._task is None:
            _listeners.add(self)
            self._task = asyncio.create_task(self._run(), name="offpath-listen")

    async def close(self) -> None:
        """End the connection, and with it every lock."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def hold(self, key: int) -> bool:
        """Take a worker's presence lock; False when its death cannot be shown."""
        # Noted before it is held: a connection that is made meanwhile takes the lock with the
        # others.
        self._wanted.add(key)
        if not await self.listens():
            return False
        # A second lock of the same key would have to be given back twice.
        if key not in self._held and await self._command(self._sql["hold_presence"](key=key)):
            self._held.add(key)
        return key in self._held

    async def listens(self) -> bool:
        """True if a direct connection is there, or can be made soon."""
        self.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._ready.wait()
        return self.hears

    async def drop(self, key: int) -> None:
        """Give the lock back."""
        self._wanted.discard(key)
        if key in self._held:
            # First here, so that a cut in this moment does not count a lock that nobody wants.
            self._held.discard(key)
            await self._command(self._sql["drop_presence"](key=key))

    def holds(self, key: int) -> bool:
        """True if the lock is held now."""
        return key in self._held

    @property
    def held(self) -> frozenset[int]:
        """The locks that are held now."""
        return frozenset(self._held)

    def cut_within(self, seconds: float) -> bool:
        """True if the connection was cut so few seconds ago, whether it is made again or not.

        Others may have been cut by the same: that they are not back yet says nothing. A first
        connection is none that was cut.
        """
        return self._cut_at is not None and time.monotonic() - self._cut_at < seconds

    def cut_off(self) -> bool:
        """True if the server has hung up and the event loop does not know it. From any thread."""
        descriptor = self._descriptor
        return descriptor is not None and _hung_up(descriptor)

    def forget_descriptor(self) -> None:
        """In a forked child: close the inherited socket, which would keep the parent's session.

        The connection itself must not be closed, for that would end it for the parent.
        """
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    # -- the connection's owner --------------------------------------------------------------

    async def _run(self) -> None:
        delay = 0.0
        while True:
            try:
                await self._session()
            except NotDirect:
                self._lose()
                # Callers that wait for the connection learn now that there is none.
                self._ready.set()
                _log.info("a pooler is in between: hints and presence are off, polling stays")
                return
            except (psycopg.Error, OSError, TimeoutError) as error:
                was_connected = self.hears
                if was_connected:
                    self._cut_at = time.monotonic()
                lost = self._lose()
                # At once after a cut, since the locks are free now and others may take the jobs. A
                # server that stays away is then asked ever more seldom.
                delay = 0.0 if was_connected else min(max(delay * 2, _FIRST_DELAY), _LONGEST_DELAY)
                await self._after_loss(lost, error, delay)

    async def _after_loss(self, lost: list[int], error: Exception, delay: float) -> None:
        """Try again at once after a cut; when that fails, say that the locks mean nothing."""
        if delay:
            self._ready.set()
            if delay == _FIRST_DELAY:
                _log.info("the listening connection is cut (%s): polling", type(error).__name__)
                with contextlib.suppress(Exception):
                    await self._on_deaf(sorted(self._wanted | set(lost)))
            # Spread, or every process of the fleet would come back at the same moment.
            await asyncio.sleep(_chance.uniform(delay / 2, delay))

    async def _session(self) -> None:
        connection = await Connection.connect(
            self._conninfo, autocommit=True, prepare_threshold=None
        )
        try:
            await self._greet(connection)
            await self._attend(connection)
        finally:
            self._descriptor = None if connection.closed else self._descriptor
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()

    async def _greet(self, connection: Connection) -> None:
        """Take the locks first: others may suspect us already."""
        if await self._number(connection, self._sql["backend"]()) != connection.info.backend_pid:
            raise NotDirect
        # A machine that is gone must not hold its locks for the server's two hours.
        with contextlib.suppress(psycopg.Error):
            await connection.execute(self._sql["watch_client"]().statement.pyformat.encode())
        for key in sorted(self._wanted):
            if await self._number(connection, self._sql["hold_presence"](key=key)):
                self._held.add(key)
        connection.add_notify_handler(self._hear_beside)
        for name in self._channels:
            listen = compose.SQL("listen {}").format(compose.Identifier(name.decode()))
            await connection.execute(listen)
        self._descriptor = connection.fileno()
        self.hears = True
        self._ready.set()
        for hint in Hint:  # what was told while nobody listened
            self._emit(hint)

    async def _attend(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        descriptor = connection.fileno()
        loop.add_reader(descriptor, self._wake.set)
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._commands:
                    await self._obey(connection, self._commands.pop(0))
                    # the driver has waited for the answer, and taken this away with its own
                    loop.add_reader(descriptor, self._wake.set)
                self._take_in(connection)
        finally:
            loop.remove_reader(descriptor)

    def _take_in(self, connection: Connection) -> None:
        """Hear what has arrived. The driver's own way to it starts a wait for each look."""
        server = connection.pgconn
        server.consume_input()
        while (notify := server.notifies()) is not None:
            self._hear(notify.relname, notify.be_pid)

    def _hear_beside(self, notify: psycopg.Notify) -> None:
        """Hear what arrived with the answer to a command."""
        self._hear(notify.channel.encode(), notify.pid)

    def _hear(self, name: bytes, pid: int) -> None:
        hint = self._channels.get(name)
        # What this process has done was told to its own listeners without the way over the server.
        if hint is not None and pid not in self.own_pids:
            self._emit(hint)

    async def _obey(self, connection: Connection, command: _Command) -> None:
        query, answer = command
        try:
            number = await self._number(connection, query)
        except BaseException:
            # Nobody may wait for an answer that does not come: no lock is the safe one.
            if not answer.done():
                answer.set_result(0)
            raise
        if not answer.done():
            answer.set_result(number)

    async def _command(self, query: Query) -> int:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._commands.append((query, answer))
        self._wake.set()
        return await answer

    async def _number(self, connection: Connection, query: Query) -> int:
        text = query.statement.pyformat.encode()
        async with asyncio.timeout(_PATIENCE):
            cursor = await connection.execute(text, query.params or None)
            (number,) = await cursor.fetchone() or (0,)
        return int(number)

    def _lose(self) -> list[int]:
        lost = sorted(self._held)
        self._held.clear()
        self._descriptor = None
        self.hears = False
        self._ready.clear()
        # They were meant for the lost connection, and nobody else would answer them.
        for _, answer in self._commands:
            if not answer.done():
                answer.set_result(0)
        self._commands.clear()
        return lost


def _hung_up(descriptor: int) -> bool:
    """True if the other end of a socket has closed it. Nothing is known of that on Windows."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    over = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
    poll.register(descriptor, over)
    return any(events & over for _, events in poll.poll(0))


def channel(schema: str, hint: Hint) -> str:
    """The channel of a kind of hint; of this schema alone."""
    return f"{schema}_{hint}"


def own_presence() -> list[int]:
    """The presence locks of this process, over all its stores."""
    return sorted(key for listener in tuple(_listeners) for key in listener.held)


def _in_child() -> None:
    for listener in tuple(_listeners):
        listener.forget_descriptor()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
