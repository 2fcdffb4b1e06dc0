"""Threads for sync handlers.

Not the standard library's executor: its threads are joined when the interpreter ends, so one
handler that hangs would keep the process from ending for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from msgspec import Struct

from offpath.errors import AppClosed, InvalidArgument
from offpath.runtime.forks import renewed_in_children

T = TypeVar("T")


async def in_own_thread(function: Callable[[], T]) -> T:
    """Call ``function`` in a thread made for it.

    The loop's own way would wait for a place in the executor that handlers fill.
    """
    threads = Threads(1, "offpath-once")
    try:
        value: T = await threads.run(function)
    finally:
        threads.close()
    return value


class _Call(Struct, frozen=True):
    function: Callable[[], Any]
    context: Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class Threads:
    """Runs functions in up to ``limit`` daemon threads, started when they are needed.

    A call beyond the limit waits for a free thread. Belongs to one event loop.
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_closed",
        "_limit",
        "_lock",
        "_name",
        "_open",
        "_started",
        "_working",
    )

    def __init__(self, limit: int, name: str = "offpath-handler") -> None:
        if limit < 1:
            raise InvalidArgument(f"a pool needs one thread or more, not {limit}")
        self._limit = limit
        self._name = name
        self._closed = False
        self.renew()
        renewed_in_children(self)

    def renew(self) -> None:
        """Have no thread and no call: in a child of a fork those of the parent are not there."""
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._open = 0
        """Calls that were given and have not ended."""
        self._started = 0
        self._working = 0

    @property
    def started(self) -> int:
        """The number of threads that there are."""
        return self._started

    @property
    def working(self) -> int:
        """The number of them that run a function now; those whose caller gave up included."""
        return self._working

    def run(self, function: Callable[[], Any], /) -> asyncio.Future[Any]:
        """Call ``function`` in a thread with the caller's context variables.

        Cancelling the future does not stop the function: nothing can stop a thread. Raises
        AppClosed after :meth:`close`.
        """
        if self._closed:
            raise AppClosed("the threads for sync handlers are closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            self._open += 1
        try:
            self._make_room()
        except BaseException:
            with self._lock:
                self._open -= 1
            raise
        self._calls.put(_Call(function, copy_context(), loop, future))
        return future

    def widen(self) -> None:
        """Allow one thread more: one of them only waits for another call."""
        self._limit += 1
        if not self._closed:
            self._make_room()

    def narrow(self) -> None:
        """Allow one thread less, after :meth:`widen`; it ends when it has nothing to do."""
        self._limit -= 1
        if self._started > self._limit and not self._closed:
            self._started -= 1
            self._calls.put(None)

    def close(self) -> None:
        """End every thread as soon as its function returns, without waiting. Idempotent."""
        if not self._closed:
            self._closed = True
            for _ in range(self._started):
                self._calls.put(None)

    def _make_room(self) -> None:
        # Each call that has not ended has a thread, up to the limit: an idle one is not looked for
        # (a thread that was about to begin another call would be taken for idle).
        if self._started >= min(self._limit, self._open):
            return
        number = self._started + 1
        thread = threading.Thread(target=self._work, name=f"{self._name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The system has no more threads to give: those that run will take the call.
            if not self._started:
                raise
            return
        self._started = number

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            with self._lock:
                self._working += 1
            value, error = _outcome(call)
            # Free before the caller knows, so that its next call finds this thread.
            with self._lock:
                self._working -= 1
                self._open -= 1
            answer(call.loop, call.future, value, error)
            # A thread that waits must not keep the last call's arguments and result alive.
            del call, value, error


Place = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]
"""Where a function is called: it answers as :meth:`Threads.run` does."""
_PLACE: Final[ContextVar[Place | None]] = ContextVar("offpath_handler_place", default=None)


class HandlerPool(Threads):
    """Threads for sync handlers; a test may have them called in a thread of its own."""

    __slots__ = ("_place", "_taken")

    def __init__(self, limit: int, name: str = "offpath-handler") -> None:
        super().__init__(limit, name)
        self._place = _PLACE.get()
        """A worker's handlers begin in contexts of their own, which know nothing of its maker's."""
        self._taken = False

    def run(self, function: Callable[[], Any], /) -> asyncio.Future[Any]:
        """Call ``function`` in a thread, or where :func:`handlers_called` says."""
        place = self._place or _PLACE.get()
        # what a handler begins runs in threads again: it may wait for it
        if place is None or self._taken:
            return super().run(function)
        self._taken = True
        return place(partial(self._placed, function))

    def _placed(self, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
        _PLACE.set(None)
        try:
            return function()
        finally:
            self._taken = False


@contextmanager
def handlers_called(place: Place) -> Iterator[None]:
    """Have sync handlers called in another place, for all that is begun in this context."""
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


def in_this_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    """Call ``function`` in the thread of the running loop, which stands still meanwhile."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    call = _Call(function, copy_context(), asyncio.get_running_loop(), future)
    value, error = _outcome(call)
    _settle(future, value, error)
    return future


def _outcome(call: _Call) -> tuple[Any, BaseException | None]:
    if call.future.done():
        return None, None  # its caller gave up before it began, and may have it done again
    try:
        return call.context.run(call.function), None
    except BaseException as raised:  # noqa: BLE001 - handed to the caller, whatever it is
        return None, raised


def answer(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    value: object,
    error: BaseException | None,
) -> None:
    """Settle a future of a loop from another thread, with the error if there is one."""
    try:
        loop.call_soon_threadsafe(_settle, future, value, error)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


def _settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration | GeneratorExit):
        # A future cannot carry them: inside a coroutine they would mean something else.
        wrapped = RuntimeError(f"the function raised {type(error).__name__}")
        wrapped.__cause__ = error
        future.set_exception(wrapped)
    else:
        future.set_exception(error)
