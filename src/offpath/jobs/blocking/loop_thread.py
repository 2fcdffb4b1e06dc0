"""The private event loop of the blocking client, and the wait for what runs in a loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

from offpath.runtime.forks import ProcessLock

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class LoopThread:
    """A private event loop in a daemon thread: one per app, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        with self._lock:
            if self._loop is None or not (self._thread and self._thread.is_alive()):
                self._start()
            assert self._loop is not None  # noqa: S101 - set by _start
            return self._loop

    def owns(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """True if this is the private loop."""
        return loop is not None and loop is self._loop

    def stop(self) -> None:
        """End the loop and its thread. Idempotent."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _start(self) -> None:
        started = threading.Event()
        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_serve, args=(loop, started), name="offpath blocking client", daemon=True
        )
        self._thread.start()
        started.wait()


def _serve(loop: asyncio.AbstractEventLoop, started: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(started.set)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def in_a_loop() -> bool:
    """True if an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def wait(future: Future[T]) -> T:
    """The value of a call that runs in another thread's loop."""
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C in this thread must not leave the call running in the other
        raise
