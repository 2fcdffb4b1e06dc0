"""Running what is due, to the end, inside of a test."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.runtime.threads import Place, handlers_called, in_this_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offpath.app import App
    from offpath.jobs.worker.app_worker import AppWorker
    from offpath.jobs.worker.terms import Active, AttemptCounts
    from offpath.model.lease import WorkerRecord

_LAST_WAIT = 3.0
"""Real seconds for handlers to end that were told to."""


class NeverIdle(AssertionError):
    """The work did not come to an end; the message says what is left."""


async def drain(
    app: App,
    *,
    limit: int = 1_000,
    timeout: float = 30.0,  # noqa: ASYNC109 - the message says what ran, which no caller could
    queues: Sequence[str] = (),
    here: bool = False,
) -> AttemptCounts:
    """Run every job that is due now, and what those lead to; returns how many attempts ended how.

    A job with a delay, a retry or a snooze is due when the app's clock says so: move it with
    ``clock.advance(60)`` and drain again. Cancelling and exceptions are as in a worker: what a
    handler raises is in the job's record (``await app.jobs.get(id)``), not raised here.

    ``here``: sync handlers run in this thread, where the test's transaction is. The event loop
    stands still meanwhile, so they cannot call ``ctx.blocking`` or ``app.blocking``; code without
    a loop has :func:`drain_blocking`, where they can.

    Raises ``NeverIdle`` when there is still something due after ``limit`` attempts, or when
    ``timeout`` real seconds have passed; ``InvalidArgument`` when a worker runs in this process,
    which would take jobs without this call knowing.
    """
    if here:
        return await drain_in(in_this_thread, app, limit=limit, timeout=timeout, queues=queues)
    return await _drained(app, app.worker(queues=queues), limit, timeout, queues)


async def drain_in(
    place: Place | None,
    app: App,
    *,
    limit: int = 1_000,
    timeout: float = 30.0,  # noqa: ASYNC109 - as in drain
    queues: Sequence[str] = (),
) -> AttemptCounts:
    """Drain with sync handlers called in a place, or in the one that is set already.

    One handler runs at a time: a second one would wait for the thread of the first, and the first
    may wait for the second.
    """
    with nullcontext() if place is None else handlers_called(place):
        worker = app.worker(queues=queues, concurrency=1)
        return await _drained(app, worker, limit, timeout, queues)


def drain_blocking(
    app: App, *, limit: int = 1_000, timeout: float = 30.0, queues: Sequence[str] = ()
) -> AttemptCounts:
    """Run what :func:`drain` runs, from code without an event loop; sync handlers in this thread.

    So they see what this thread's transaction has written, and what they write is rolled back with
    it. A job that a handler waits for runs in another thread, and so do async handlers.
    """
    return app.blocking.run_here(
        lambda: drain_in(None, app, limit=limit, timeout=timeout, queues=queues)
    )


async def _drained(
    app: App, worker: AppWorker, limit: int, patience: float, queues: Sequence[str]
) -> AttemptCounts:
    checks.integer(limit, "limit", least=1, most=10_000_000)
    await _refuse_company(app)
    running = asyncio.ensure_future(worker.run_until_idle(limit=limit))
    try:
        await asyncio.wait({running}, timeout=patience)
        if not running.done():
            raise NeverIdle(_unfinished(worker.active(), patience))
        counts = running.result()
    finally:
        await _end(worker, running)
    if counts.total >= limit:
        await _refuse_leftovers(app, limit, queues)
    return counts


async def _refuse_company(app: App) -> None:
    own = (socket.gethostname(), os.getpid())
    if any(
        (one.info.host, one.info.pid) == own and one.gone_at is None and _takes(one, app)
        for one in await app.workers()
    ):
        raise InvalidArgument(
            "a worker runs in this process already and would take the jobs: make the app with "
            "auto_start=False, or use offpath.testing.swap_to_memory(app), and start no worker"
        )


def _takes(worker: WorkerRecord, app: App) -> bool:
    """One that serves no task, although there are some, only runs what begins in this process."""
    return bool(worker.info.tasks) or not app.tasks


async def _refuse_leftovers(app: App, limit: int, queues: Sequence[str]) -> None:
    due = [one for one in await app.backlog() if not queues or one.queue in queues]
    if due:
        left = ", ".join(f"{one.ready} of {one.task}" for one in due)
        raise NeverIdle(
            f"after {limit} attempts there is still work due: {left}; "
            "does a job enqueue itself, or snooze for no time? If not, raise limit="
        )


def _unfinished(held: Iterable[Active], timeout: float) -> str:
    runs = ", ".join(f"{one.task} (job {one.id}, attempt {one.attempt})" for one in held)
    what = f"these jobs still run: {runs}" if runs else "the store has not answered"
    return (
        f"after {timeout:g} s {what}; "
        "does a handler wait for a clock that nobody moves, or for another job?"
    )


async def _end(worker: AppWorker, running: asyncio.Future[AttemptCounts]) -> None:
    """Leave nothing behind: abort handlers that hang, also when they wait for a clock by hand."""
    if running.done():
        return
    stop = asyncio.ensure_future(worker.stop(drain=False))
    await asyncio.wait({stop}, timeout=_LAST_WAIT)
    running.cancel()
    # A handler may ignore even this, and a stop waits for it by a clock that nobody moves.
    await asyncio.wait({running}, timeout=_LAST_WAIT)
