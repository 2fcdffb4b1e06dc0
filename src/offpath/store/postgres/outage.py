"""A server that is away: a bound on its silence, and a line when that begins and when it ends.

The driver's pool tells of each connection and each try. Of pools of ours that is left out, for what
it means is said here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
import time
from collections.abc import Iterator
from typing import Any, Final

import psycopg

from offpath.errors import StoreError, StoreUnavailable

POOL: Final = "offpath"
"""The name of our pools, by which their lines are known."""

_log = logging.getLogger("offpath.store.postgres")


class Outage:
    """The absence of the database, since its beginning."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._since: float | None = None

    def noticed(self, error: StoreError) -> StoreError:
        """Tell of an outage that begins with this error; returns the error."""
        if isinstance(error, StoreUnavailable):
            error.told = True
            if self._since is None:
                self._since = time.monotonic()
                _log.warning("the database is away: %s", error)
        return error

    def over(self) -> None:
        """Tell that the database answers again, if it was away."""
        if self._since is not None:
            away, self._since = time.monotonic() - self._since, None
            _log.warning("the database is back after %.1f s: %s", away, self._shown)


class _Ours(logging.Filter):
    """Drops what the driver's pool says of connections of ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else (record.args,)
        return not any(self._is_ours(one) for one in arguments)

    @staticmethod
    def _is_ours(argument: object) -> bool:
        if isinstance(argument, psycopg.AsyncConnection):
            return bool(getattr(argument, "of_offpath", False))
        return argument == POOL


def quieten() -> None:
    """Leave what the driver's pool says of our connections to us. Repeating it does nothing."""
    pool = logging.getLogger("psycopg.pool")
    if not any(isinstance(one, _Ours) for one in pool.filters):
        pool.addFilter(_Ours())


_ASK_AFTER: Final = 10.0
"""Seconds of rest after which a connection is asked: a firewall may have dropped it unseen."""
_ANSWERS_IN: Final = 1.0
"""Seconds that a connection has to answer such a question; it is replaced otherwise."""

_poll = getattr(select, "poll", None)  # not there on Windows


class Silence(TimeoutError):
    """The server said nothing for longer than the caller waits; the connection was given up."""


async def answers(connection: psycopg.AsyncConnection[Any]) -> bool:
    """True if a connection that has rested can be used; a doubtful one is asked.

    A server that closed it has left its end, and often a last word, to be read. To look for that
    is a system call without a wait, so it is done before each use.
    """
    rested_at = getattr(connection, "rested_at", 0.0)
    now = asyncio.get_running_loop().time()
    if connection.closed:
        return False
    if not readable(connection) and now - rested_at < _ASK_AFTER:
        return True
    try:
        with bounded(connection, _ANSWERS_IN):
            await connection.execute(b"")
    except (psycopg.Error, Silence):
        return False
    return not connection.closed


def readable(connection: psycopg.AsyncConnection[Any]) -> bool:
    """True if the server has said anything, or hung up, while nothing was asked."""
    if _poll is None:
        return False
    waiting = _poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


@contextlib.contextmanager
def bounded(connection: psycopg.AsyncConnection[Any], seconds: float) -> Iterator[None]:
    """Raise ``Silence`` when what is inside has not been answered in so many seconds.

    The connection is hung up then. To cancel the wait would not do: the driver asks the server to
    cancel the statement, and waits for the answer, over the same network that is silent.
    """
    silent: list[bool] = []

    def give_up() -> None:
        silent.append(True)
        _hang_up(connection)

    timer = asyncio.get_running_loop().call_later(seconds, give_up)
    try:
        yield
    except psycopg.Error as error:
        if silent:
            raise Silence from error
        raise
    finally:
        timer.cancel()


def _hang_up(connection: psycopg.AsyncConnection[Any]) -> None:
    """End the conversation on our side, which wakes whoever waits for an answer."""
    with contextlib.suppress(OSError, psycopg.Error):
        line = socket.socket(fileno=socket.dup(connection.fileno()))
        with line:
            line.shutdown(socket.SHUT_RDWR)
