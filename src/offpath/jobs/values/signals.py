"""A one-way signal that a coroutine can await and a thread can wait for."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class Signal:
    """Set once, never cleared.

    In a coroutine ``await signal`` (or ``is_set()`` between steps); in a thread
    ``signal.wait(timeout)``.
    """

    __slots__ = ("_event", "_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_set: bool = False) -> None:
        self._loop = loop
        self._event = threading.Event()
        self._waiters: set[asyncio.Future[None]] = set()
        if is_set:
            self._event.set()

    def __repr__(self) -> str:
        """Show whether it is set."""
        return f"<Signal {'set' if self._event.is_set() else 'not set'}>"

    def __bool__(self) -> bool:
        """True if it is set, so that ``while not ctx.cancelled`` reads as it should."""
        return self._event.is_set()

    def is_set(self) -> bool:
        """True if it is set."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until it is set, or for ``timeout`` seconds; returns whether it is.

        For threads only: in the worker's own loop it would block everything, and raises
        RuntimeError (``await`` it there).
        """
        if in_loop(self._loop):
            raise RuntimeError("Signal.wait() blocks: in a coroutine write `await signal` instead")
        return self._event.wait(timeout)

    def __await__(self) -> Generator[None, None, None]:
        """Wait until it is set, in the worker's loop."""
        return self._until_set().__await__()

    def set(self) -> None:
        """Set it and wake everybody who waits. Call it in the loop's thread."""
        self._event.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _until_set(self) -> None:
        if not in_loop(self._loop):
            raise RuntimeError(
                "this signal can only be awaited in the worker's loop; threads use wait()"
            )
        if self._event.is_set():
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)


def in_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """True if the caller runs inside ``loop``."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
