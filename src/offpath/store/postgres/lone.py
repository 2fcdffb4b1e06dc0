"""A lone statement on its way: sent in its caller's frame, answered by the event loop itself.

A single enqueue after the other would pay more for a task, and for the turns of the loop that start
and end it, than for all else that its client does. Nobody is needed between the statement and its
answer: the connection goes back as the answer comes, whether or not somebody waits for it still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import psycopg

from offpath.store.postgres.silence import Silence

if TYPE_CHECKING:
    from offpath.store.postgres.pool import Connection, Pool
    from offpath.store.programs.dialect import Rows
    from offpath.store.sql import Query

T = TypeVar("T")
Left = Callable[["Connection", BaseException], Awaitable[None]]
"""Has a connection fit for the next, after an error."""

_clearing: Final[set[asyncio.Task[None]]] = set()
"""Connections that errors have left: a task that nobody refers to could be collected."""


class LoneStatement(Generic[T]):
    """One statement under way. ``read`` makes its answer of the rows."""

    __slots__ = ("_bound", "_connection", "_left", "_pool", "_read", "_told", "answer")

    def __init__(
        self,
        pool: Pool,
        connection: Connection,
        read: Callable[[Rows], T],
        left: Left,
        told: Callable[[Exception], Exception],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._pool = pool
        self._connection = connection
        self._read = read
        self._left = left
        self._told = told
        self._bound = connection.watch.bounded(connection, loop.time() + connection.patience)
        self.answer: asyncio.Future[T] = loop.create_future()
        """Fails with the driver's errors, and in our words where nothing came in time."""

    def begin(self, query: Query) -> bool:
        """Send it; False: the session does not have it ready, and nothing was sent."""
        sent, error = False, None
        try:
            sent = self._connection.wire.launch(query, self._landed)
        except psycopg.Error as fault:
            error = fault
        if sent:
            self._connection.watch.add(self._bound)
        else:
            self._give_back(error)
        return sent

    def _landed(self) -> None:
        self._connection.watch.leave(self._bound)
        answer: T | None = None
        error: Exception | None = None
        try:
            answer = self._read(self._connection.wire.rows())
        except psycopg.Error as fault:
            error = self._told(Silence()) if self._bound.silent else fault
        self._give_back(error)
        if self.answer.done():  # nobody waits any more
            return
        if error is None:
            self.answer.set_result(cast("T", answer))
        else:
            self.answer.set_exception(error)

    def _give_back(self, error: Exception | None) -> None:
        if error is None and self._pool.keep(self._connection):
            return
        task = asyncio.ensure_future(self._clear(error))
        _clearing.add(task)
        task.add_done_callback(_clearing.discard)

    async def _clear(self, error: Exception | None) -> None:
        try:
            if error is not None:
                await self._left(self._connection, error)
        except psycopg.Error:
            pass  # told to the caller already
        finally:
            await self._pool.give_back(self._connection)
