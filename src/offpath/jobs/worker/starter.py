"""The start of an attempt: a task of its own, whose first step is done at once where Python can."""

from __future__ import annotations

import asyncio
import sys
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

AT_ONCE: Final = 0.005
"""Seconds of one turn of the loop in which attempts are begun at once. Those behind them wait for
the next turn, as all did before, so that whoever else needs the loop has it in between."""


class Starter:
    """Begins attempts, each in a task with a clean context.

    From Python 3.12 on its first step is done before the call returns: a handler that never waits
    has ended by then, and no loop had to schedule it. Whoever has given the loop a task factory
    gets every task by it.
    """

    def __init__(self) -> None:
        self._until: float | None = None
        """The time until which attempts are begun at once in this turn of the loop."""

    def begin(
        self, loop: asyncio.AbstractEventLoop, attempt: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        """The task of an attempt; it may have ended."""
        if sys.version_info >= (3, 12) and loop.get_task_factory() is None and self._in_time(loop):
            return asyncio.Task(attempt, loop=loop, context=Context(), eager_start=True)
        return self.schedule(loop, attempt)

    def schedule(
        self, loop: asyncio.AbstractEventLoop, attempt: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        """The task of an attempt that begins with the next turn of the loop."""
        # clean: it sees neither the job before it nor where the worker happened to be started
        return loop.create_task(attempt, context=Context())

    def _in_time(self, loop: asyncio.AbstractEventLoop) -> bool:
        now = loop.time()
        if self._until is None:
            self._until = now + AT_ONCE
            loop.call_soon(self._new_turn)
        return now < self._until

    def _new_turn(self) -> None:
        self._until = None
