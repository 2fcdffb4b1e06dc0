"""The soft time limit of an async task: an error that is raised where the task waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from offpath.contrib.celery.exceptions import SoftTimeLimitExceeded
from offpath.runtime.clock import Clock


async def within_soft_limit(call: Coroutine[Any, Any, Any], limit: float, clock: Clock) -> Any:  # noqa: ANN401 - what the task returns
    """Await a coroutine, in which ``SoftTimeLimitExceeded`` is raised after ``limit`` seconds.

    It may catch the error, clean up and return. The error comes once.
    """
    awaited = _Interruptible(call)
    timer = asyncio.create_task(clock.sleep(limit), name="celery soft limit")
    timer.add_done_callback(awaited.timed_out)
    try:
        return await awaited
    finally:
        timer.cancel()


class _Interruptible:
    """A coroutine driven by hand, so that another error may come in the place of a cancellation."""

    def __init__(self, call: Coroutine[Any, Any, Any]) -> None:
        self._call = call
        self._task = asyncio.current_task()
        self._due = False

    def timed_out(self, timer: asyncio.Task[None]) -> None:
        """Wake the task, which then meets the error; unless it has ended."""
        if self._task is not None and not timer.cancelled():
            self._due = True
            self._task.cancel()

    def __await__(self) -> Generator[Any, Any, Any]:
        step = self._call.send
        given: Any = None
        while True:
            try:
                waits = step(given)
            except StopIteration as end:
                return end.value
            try:
                given, step = (yield waits), self._call.send
            except asyncio.CancelledError as error:
                given, step = self._met(error), self._call.throw
            except BaseException as error:  # noqa: BLE001 - handed to whom it is for
                given, step = error, self._call.throw

    def _met(self, error: asyncio.CancelledError) -> BaseException:
        """The error that the coroutine meets: a cancellation by somebody else goes before ours."""
        due, self._due = self._due, False
        if due and self._task is not None and self._task.uncancel() == 0:
            return SoftTimeLimitExceeded("soft_time_limit")
        return error
