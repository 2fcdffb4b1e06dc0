"""A bound on a server's silence: who waits too long has the connection hung up under them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from types import TracebackType


class Silence(TimeoutError):
    """The server said nothing for longer than the caller waits; the connection was given up."""


class SilenceWatch:
    """The waits for a server's answers that are under way in one event loop, and one timer for all.

    A timer for each wait would cost every statement two entries of the loop's heap, and nearly
    none of them is ever due. This one is set for the earliest end and looks anew when it is over.
    """

    __slots__ = ("_at", "_timer", "_waits")

    def __init__(self) -> None:
        self._waits: set[Bounded] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0

    def bounded(self, connection: psycopg.AsyncConnection[Any], until: float) -> Bounded:
        """A block that raises ``Silence`` when it is not over by then, by the loop's clock."""
        return Bounded(self, connection, until)

    def close(self) -> None:
        """Forget the timer; who still waits is not bounded any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add(self, wait: Bounded) -> None:
        """Look after a wait."""
        self._waits.add(wait)
        if self._timer is None or wait.until < self._at:
            self._set(wait.until)

    def leave(self, wait: Bounded) -> None:
        """Look after it no more. The timer stays: the next wait is likely to need it."""
        self._waits.discard(wait)

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        # the loop may call a little early, by the resolution of its clock
        for wait in [wait for wait in self._waits if wait.until <= max(now, self._at)]:
            self._waits.discard(wait)
            wait.give_up()
        if self._waits:
            self._set(min(wait.until for wait in self._waits))


class Bounded:
    """One wait for an answer: see :meth:`SilenceWatch.bounded`.

    The connection is hung up when it is over. To cancel the wait would not do: the driver asks the
    server to cancel the statement, and waits for the answer, over the same network that is silent.
    """

    __slots__ = ("_connection", "_watch", "silent", "until")

    def __init__(
        self, watch: SilenceWatch, connection: psycopg.AsyncConnection[Any], until: float
    ) -> None:
        self._watch = watch
        self._connection = connection
        self.silent = False
        """True once the connection was hung up."""
        self.until = until

    def __enter__(self) -> None:
        self._watch.add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watch.leave(self)
        if self.silent and isinstance(error, psycopg.Error):
            raise Silence from error

    def give_up(self) -> None:
        """End the conversation on our side, which wakes whoever waits for an answer."""
        self.silent = True
        with contextlib.suppress(OSError, psycopg.Error):
            line = socket.socket(fileno=socket.dup(self._connection.fileno()))
            with line:
                line.shutdown(socket.SHUT_RDWR)
