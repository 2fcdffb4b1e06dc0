"""A sync handler's thread, lent to the steps that it waits for.

A blocking step of a sync handler runs in the handler's own thread: it would wait idly meanwhile,
and with all threads waiting for a free one nothing would go on any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from offpath.runtime.threads import answer

T = TypeVar("T")

_Work = tuple[Callable[[], Any], Context, "asyncio.Future[Any]"]


class Thread:
    """One waiting thread."""

    __slots__ = ("_loop", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: SimpleQueue[_Work | None] = SimpleQueue()

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call ``function`` in the thread, with the caller's context. Called in the loop."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._work.put((function, copy_context(), future))
        return future

    def wait_for(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine that runs in the loop, and do what it lends this thread for."""
        token = _lent.set(self)
        try:
            ended = asyncio.run_coroutine_threadsafe(call, self._loop)
        finally:
            _lent.reset(token)
        ended.add_done_callback(lambda _: self._work.put(None))
        while (work := self._work.get()) is not None:
            self._do(*work)
        return ended.result()

    def _do(self, function: Callable[[], Any], context: Context, future: Any) -> None:  # noqa: ANN401
        context.run(_lent.set, None)  # a step may wait for steps of its own, by itself
        try:
            value = context.run(function)
        except BaseException as error:  # noqa: BLE001 - handed over, whatever it is
            answer(self._loop, future, None, error)
        else:
            answer(self._loop, future, value, None)


_lent: ContextVar[Thread | None] = ContextVar("offpath_lent_thread", default=None)


def lent() -> Thread | None:
    """The thread that waits for the caller; None when there is none."""
    return _lent.get()
