"""Names of machines, looked up in threads that nobody else can fill.

``loop.getaddrinfo`` takes a thread of the loop's default executor, which handlers fill by
``asyncio.to_thread``: then nothing could be connected to any more. A lookup cannot be stopped, so
each name has one thread at a time, however many ask for it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

from offpath.runtime.clock import Clock, SystemClock
from offpath.runtime.threads import Threads

Found = list[tuple[Any, ...]]
"""The answers of ``socket.getaddrinfo``."""
Lookup = Callable[[str, int, int], Found]
"""From name, port and family."""
_Asked = tuple[int, str, int, int]
"""A loop, and what it asked for: a future belongs to one loop."""

_NEGATIVE = 2.0
"""Seconds for which a name that was not found is not asked for again."""
_MOST_KEPT = 1_000


class NameNotFound(OSError):
    """A name was not found, or not in time."""


def system_lookup(host: str, port: int, family: int) -> Found:
    """The answer of the operating system. Blocks."""
    return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, socket.IPPROTO_TCP)


class Resolver:
    """Looks names up, ``limit`` at once, each for ``patience`` seconds at most.

    May be used from several event loops, and after a fork.
    """

    def __init__(
        self,
        *,
        limit: int = 32,
        patience: float = 2.0,
        name: str = "offpath-resolver",
        clock: Clock | None = None,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._limit = limit
        self._patience = patience
        self._name = name
        self._clock = clock or SystemClock()
        self._lookup = lookup
        self._pid = os.getpid()
        self._threads = Threads(limit, name)
        self._asking: dict[_Asked, asyncio.Future[Found]] = {}
        self._failed: dict[tuple[str, int], tuple[float, str]] = {}

    async def resolve(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> Found:
        """The addresses of a name. Raises :class:`NameNotFound`, also when it takes too long."""
        now = self._clock.monotonic()
        until, why = self._failed.get((host, family), (now, ""))
        if now < until:
            raise NameNotFound(why)
        asking = self._ask(host, port, family)
        heard = asyncio.Event()
        asking.add_done_callback(lambda _: heard.set())
        await self._clock.wait(heard, self._patience)
        if not asking.done():
            raise self._failure(host, family, f"no answer within {self._patience:g} s")
        if (error := asking.exception()) is not None:
            raise self._failure(host, family, type(error).__name__) from error
        self._failed.pop((host, family), None)
        return asking.result()

    def _ask(self, host: str, port: int, family: int) -> asyncio.Future[Found]:
        """The lookup that is under way, or a new one."""
        if os.getpid() != self._pid:  # the threads are the parent's
            self._pid, self._threads = os.getpid(), Threads(self._limit, self._name)
            self._asking.clear()
        key = (id(asyncio.get_running_loop()), host, port, family)
        asking = self._asking.get(key)
        if asking is None:
            asking = self._threads.run(lambda: self._lookup(host, port, family))
            self._asking[key] = asking
            asking.add_done_callback(lambda done: self._answered(key, done))
        return asking

    def _answered(self, key: _Asked, done: asyncio.Future[Found]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # who asked may have given up: nobody else would ever look at it

    def _failure(self, host: str, family: int, why: str) -> NameNotFound:
        if len(self._failed) >= _MOST_KEPT:
            self._failed.clear()
        text = f"the name {host} was not found: {why}"
        self._failed[host, family] = (self._clock.monotonic() + _NEGATIVE, text)
        return NameNotFound(text)
