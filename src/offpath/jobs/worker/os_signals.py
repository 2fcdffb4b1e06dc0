"""SIGTERM and SIGINT as what they mean to a worker: drain, and at a second one, abort."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from offpath.errors import AppClosed
from offpath.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logger("worker")

STOPPING = (signal.SIGTERM, signal.SIGINT)


class Stoppable(Protocol):
    """A worker, as far as signals concern it."""

    @property
    def stopping(self) -> bool:
        """True if it was told to stop."""
        ...

    async def start(self) -> None:
        """Register, and begin to take jobs."""
        ...

    async def stop(self, *, drain: bool = True) -> object:
        """Take no more jobs, let those that run end (unless not ``drain``), and leave."""
        ...


class StopSignals:
    """The signals that stop one worker. They are caught from before it starts: whoever sees it
    registered may send one, and the default would end the process with jobs in its hands.
    """

    def __init__(self, worker: Stoppable) -> None:
        self._worker = worker
        self._told = False
        self._stops: set[asyncio.Task[object]] = set()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catches the signals while the block lasts; see :func:`caught`."""
        with caught(self._signalled):
            yield

    async def start(self) -> bool:
        """Start the worker; False when a signal came first and has stopped it: not an error."""
        try:
            await self._worker.start()
        except AppClosed:
            if not self._told:
                raise
            await self._worker.stop()
            return False
        return True

    def _signalled(self) -> None:
        # Two signals may come before the stop that the first one asked for has begun.
        drain = not self._told and not self._worker.stopping
        self._told = True
        if drain:
            _log.info("draining: running jobs may end; a second signal aborts them")
        else:
            _log.warning("aborting what still runs")
        stop = asyncio.ensure_future(self._worker.stop(drain=drain))
        self._stops.add(stop)  # the loop itself holds tasks weakly
        stop.add_done_callback(self._stops.discard)


@contextmanager
def caught(callback: Callable[[], None]) -> Iterator[None]:
    """Call ``callback`` in the running loop at each of these signals; afterwards all is as before.

    Raises ValueError outside of the main thread, as Python does.
    """
    loop = asyncio.get_running_loop()

    def handle(_number: int, _frame: Any) -> None:  # noqa: ANN401 - a frame, unused
        # Python calls this between any two instructions, so the work is left to a turn of the loop.
        loop.call_soon_threadsafe(callback)

    before = {number: signal.signal(number, handle) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
