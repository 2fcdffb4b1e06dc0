"""The slot of a running handler, given back while the handler waits for another job.

A handler that waits does no work. Would it keep its slot, parents that wait for their children
could take every slot, and no child would ever begin.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from offpath.errors import WaitRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from offpath.model.job import JobRecord

    Read = Callable[[Sequence[str]], Awaitable[Sequence[JobRecord]]]

T = TypeVar("T")


class Standby(Protocol):
    """A running handler, as its waits see it. Called in its worker's event loop only."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The worker's event loop."""
        ...

    def step_aside(self) -> bool:
        """Begin a wait; True if some task has as many waiting handlers as it may have."""
        ...

    def come_back(self) -> None:
        """End a wait."""
        ...

    def shut_out(self, job: JobRecord) -> str | None:
        """The reason for which the worker takes a job only when a wait has ended, if it has one."""
        ...


_running: ContextVar[Standby | None] = ContextVar("offpath_standby", default=None)


def stand_by(run: Standby | None) -> None:
    """Let the waits of this task, and of the threads that it calls, give back a handler's slot."""
    _running.set(run)


def in_handler() -> bool:
    """True if a handler runs here, whose slot a wait would give back."""
    return _running.get() is not None


@asynccontextmanager
async def standing_by(job_id: str, read: Read) -> AsyncIterator[None]:
    """Give back the slot of the handler that runs here, if one does, for the time of the block.

    Raises ``WaitRefused`` where the awaited job could not begin before this wait has ended.
    """
    run = _running.get()
    if run is None:
        yield
        return
    crowded = await _inside(run.loop, run.step_aside)
    try:
        if crowded:
            await _require_way(run, job_id, read)
        yield
    finally:
        _soon(run.loop, run.come_back)


async def _require_way(run: Standby, job_id: str, read: Read) -> None:
    for job in await read((job_id,)):
        reason = None if job.state.terminal else await _inside(run.loop, partial(run.shut_out, job))
        if reason is not None:
            raise WaitRefused(
                f"this handler may not wait for job {job_id} of task {job.task!r}: {reason}. "
                "Return a plan instead (ctx.queue(...).next(...)), which waits without a handler"
            )


async def _inside(loop: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    """Call in the worker's loop: the handler may wait in the loop of another app."""
    if loop is asyncio.get_running_loop():
        return call()

    async def called() -> T:
        return call()

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called(), loop))


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if loop is asyncio.get_running_loop():
        call()
        return
    with suppress(RuntimeError):  # the worker's loop is closed: nobody counts any more
        loop.call_soon_threadsafe(call)
