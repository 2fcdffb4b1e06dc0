"""One connection that all callers of a process share, and one that hears what is published.

Questions go out as they come, and answers come back in their order: so callers do not wait for each
other, and one that is cancelled leaves nothing behind on the way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as NoAnswer

Command = Sequence[Any]


class Wire:
    """The shared connection: made when it is needed, and again after it broke."""

    def __init__(self, make: Callable[[], AbstractConnection], timeout: float) -> None:
        self._make = make
        self._timeout = timeout
        self._link: _OneConnection | None = None
        self._connecting: asyncio.Task[_OneConnection] | None = None

    async def ask(self, *commands: Command) -> list[Any]:
        """The answers to some commands that go out together. Raises the first error among them.

        Where none came in time, or the connection broke, what was asked may have been done.
        """
        if not commands:
            return []
        link = self._link
        if link is None or link.broken:
            link = await self._connected()
        answers = await link.ask(commands, self._timeout)
        for each in answers:
            if isinstance(each, ResponseError):
                raise each
        return answers

    async def _connected(self) -> _OneConnection:
        """The new connection: all that ask meanwhile wait for the same one."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._has_connected)
        # Shielded: a caller that gives up must not end it for the others.
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> _OneConnection:
        if self._link is not None:
            await self._link.close()
        connection = self._make()
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._link = _OneConnection(connection)
        return self._link

    def _has_connected(self, task: asyncio.Task[_OneConnection]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # whoever waited was told

    async def close(self) -> None:
        """End the connection. Whoever waits for an answer is told that there is none."""
        if self._connecting is not None:
            self._connecting.cancel()
            with suppress(asyncio.CancelledError, RedisError, OSError):
                await self._connecting
        link, self._link = self._link, None
        if link is not None:
            await link.close()


class _OneConnection:
    """One connection while it lasts, with the questions that wait for an answer."""

    def __init__(self, connection: AbstractConnection) -> None:
        self.broken = False
        self._connection = connection
        self._waiting: deque[tuple[int, asyncio.Future[list[Any]]]] = deque()
        self._reader = asyncio.create_task(self._read())

    async def ask(self, commands: Sequence[Command], timeout: float) -> list[Any]:  # noqa: ASYNC109 - each call's own
        question = self._connection.pack_commands(commands)
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        # nothing is awaited between these two: the order of questions is that of those who wait
        self._waiting.append((len(commands), answer))
        try:
            async with asyncio.timeout(timeout):
                await self._connection.send_packed_command(question, check_health=False)
                return await answer
        except TimeoutError:
            error = NoAnswer(f"no answer within {timeout:g} s")
            # Answers are told apart by their order alone, so behind a missing one none can be
            # trusted.
            self._break(error)
            raise error from None

    async def _read(self) -> None:
        """Give each answer to whoever waits for it, until the connection breaks."""
        answers: list[Any] = []
        try:
            while True:
                answers.append(await self._answer())
                if not self._waiting:
                    raise ConnectionLost("the server spoke without being asked")
                number, asked = self._waiting[0]
                if len(answers) == number:
                    self._waiting.popleft()
                    # A caller that has gone keeps its place in the line, or the others would get
                    # its answer.
                    if not asked.done():
                        asked.set_result(answers)
                    answers = []
        except (RedisError, OSError) as error:
            self._break(error)
        except asyncio.CancelledError:
            self._break(ConnectionLost("the connection was closed"))
            raise

    async def _answer(self) -> Any:  # noqa: ANN401 - as the server answers
        try:
            return await self._connection.read_response()
        except ResponseError as error:
            return error

    def _break(self, error: Exception) -> None:
        self.broken = True
        while self._waiting:
            _, asked = self._waiting.popleft()
            if not asked.done():
                asked.set_exception(ConnectionLost(str(error)))
        if asyncio.current_task() is not self._reader:
            self._reader.cancel()

    async def close(self) -> None:
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader
        with suppress(RedisError, OSError):
            await self._connection.disconnect()


async def heard(make: Callable[[], AbstractConnection], channel: str) -> AsyncIterator[bytes]:
    """The messages of a channel, over a connection of their own, until that breaks."""
    connection = make()
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
        await connection.send_command("SUBSCRIBE", channel)
        while True:
            kind, *told = await connection.read_response()
            if kind == b"message":
                yield told[-1]
    finally:
        with suppress(RedisError, OSError):
            await connection.disconnect()
