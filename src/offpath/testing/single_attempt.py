"""One attempt of one job, with all that surrounds a handler: what it returns, or what it raises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from offpath.errors import InvalidArgument
from offpath.model.job import JobState
from offpath.testing.due_work import NeverIdle

if TYPE_CHECKING:
    from offpath.app import App
    from offpath.jobs.define.task import Task
    from offpath.jobs.values.job import Job
    from offpath.model.job import JobRecord
    from offpath.runtime.extension import Running

S = TypeVar("S")
_LOOK_EVERY = 0.005
"""Real seconds between two looks at the job: whoever records its end tells nobody of a retry."""


async def perform(app: App, job: Job[S, Any], /, *, timeout: float = 30.0) -> S:  # noqa: ASYNC109 - as that of drain
    """Run one attempt of a job here and now.

    ``await perform(app, send_mail.job(7))`` enqueues and leases it as any other, so the handler has
    a true context, ``around`` and extensions are entered, and its end is recorded. Returns what the
    handler returned, as a caller reads it (None for a plan), or raises what it raised: an error
    that a worker would repeat too, ``Snooze`` and ``Abort``. Other jobs stay where they are.

    Raises ``InvalidArgument`` for a job that would not run now (a delay, a limit, a unique key that
    is taken), and ``NeverIdle`` when it has not ended after ``timeout`` real seconds.
    """
    task = app.tasks[job.task]
    with _watched(task, job.id) as watch:
        handle = await app.enqueue(job, inline=True)
        if not handle.created or handle.id != job.id:
            raise InvalidArgument(f"{job!r} is there already (job {handle.id}): perform a new one")
        record = await _ended(app, job.id, watch, timeout)
    if watch.raised is not None:
        raise watch.raised
    if record.state is not JobState.SUCCEEDED:
        why = record.failures[-1].message if record.failures else record.reason
        raise AssertionError(f"{job!r} is {record.state} without having run to its end: {why}")
    value: Any = None if record.result is None else task.results.decode(record.result)
    return cast("S", value)


@dataclass(slots=True)
class _Watch:
    """The knowledge of one call of a handler."""

    raised: BaseException | None = None
    task: asyncio.Task[Any] | None = None
    """The task that it runs in; None in a thread."""


@contextmanager
def _watched(task: Task[..., Any, Any], job_id: str) -> Iterator[_Watch]:
    """A watch of the handler of one job, and of what is around it."""
    watch = _Watch()

    @contextmanager
    def watched(run: Running) -> Iterator[None]:
        if all(one.id != job_id for one in run.jobs):
            yield
            return
        watch.task = asyncio.current_task() if task.is_async else None
        try:
            yield
        except BaseException as error:
            watch.raised = error
            raise

    task.around = (watched, *task.around)
    try:
        yield watch
    finally:
        task.around = tuple(one for one in task.around if one is not watched)


async def _ended(app: App, job_id: str, watch: _Watch, limit: float) -> JobRecord:
    """The job once an attempt of it has been recorded."""
    try:
        async with asyncio.timeout(limit):
            while True:
                record = await app.jobs.get(job_id)
                if record.deliveries and record.state is not JobState.RUNNING:
                    return record
                await asyncio.sleep(_LOOK_EVERY)
    except TimeoutError:
        if watch.task is not None:
            watch.task.cancel()  # else the end of the app waits for it
        raise NeverIdle(
            f"after {limit:g} s job {job_id} still runs; does its handler wait for a clock that "
            "nobody moves, or for another job?"
        ) from None
