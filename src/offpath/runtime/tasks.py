"""Tasks that run beside, and the reports of what fails in them: nothing ends unknown to all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from offpath.runtime.log import logger

Report = Callable[[BaseException, str], None]
"""Told of every error that the engine survives: the error, and the phase it came from."""

_log = logger("loop")


def reporter(on_error: Report | None = None) -> Report:
    """A report that logs and then tells ``on_error``; what that raises is logged and dropped."""

    def report(error: BaseException, phase: str) -> None:
        _log.error("%s failed: %s", phase, type(error).__name__, exc_info=error)
        if on_error is None:
            return
        try:
            on_error(error, phase)
        except Exception as second:  # noqa: BLE001 - a broken hook disturbs nothing
            _log.error("on_error raised %s", type(second).__name__, exc_info=second)

    return report


class Tasks:
    """Tasks that nobody awaits: kept alive, reported when they fail, ended together."""

    __slots__ = ("_report", "_tasks")

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any], phase: str) -> asyncio.Task[Any]:
        """Start ``work``. What it raises is reported under ``phase``, unless it is cancelled."""
        task = asyncio.get_running_loop().create_task(work, name=f"offpath {phase}")
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._ended(ended, phase))
        return task

    async def stop(self, patience: float = 2.0) -> int:
        """Cancel all and wait for them at most ``patience`` seconds; how many did not end."""
        own = asyncio.current_task()
        others = {task for task in self._tasks if task is not own}
        for task in others:
            task.cancel()
        if not others:
            return 0
        _, left = await asyncio.wait(others, timeout=patience)
        return len(left)

    def _ended(self, task: asyncio.Task[Any], phase: str) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(error, phase)
