"""The surroundings of a handler: the app's extensions, and in them the ``around`` of app and task.

Both are entered and left where the handler runs, in its task or its thread, so that context
variables which they set are seen by the handler and reset where they were set.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

from offpath.errors import TaskError
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Released,
    Retry,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.runtime.extension import Ended, Running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from offpath.jobs.values.run import Run
    from offpath.jobs.values.runnable import Around
    from offpath.model.settlement import Outcome
    from offpath.runtime.extension import Verdict
    from offpath.runtime.extensions import Extensions


def surrounded(
    runs: Sequence[Run], fn: Callable[..., Any], extensions: Extensions | None
) -> Callable[..., Any]:
    """The handler ``fn`` of these jobs with what surrounds it."""
    task = runs[0].task
    running = Running(task.name, [run.job for run in runs], task.trace)
    for run in runs:
        run.running = running
    if task.is_async:
        return _in_task(running, fn, task.around, extensions)
    return _in_thread(running, fn, task.around, extensions)


def _in_task(
    running: Running,
    fn: Callable[..., Any],
    arounds: Sequence[Around],
    extensions: Extensions | None,
) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the handler's
        with _extended(running, extensions, None):
            if not arounds:
                return await fn(*args, **kwargs)
            async with AsyncExitStack() as stack:
                for around in arounds:
                    await _enter(stack, around, running)
                return await fn(*args, **kwargs)

    return call


def _in_thread(
    running: Running,
    fn: Callable[..., Any],
    arounds: Sequence[Around],
    extensions: Extensions | None,
) -> Callable[..., Any]:
    loop = asyncio.get_running_loop()

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the handler's
        with _extended(running, extensions, loop), ExitStack() as stack:
            for around in arounds:
                stack.enter_context(_plain(around, running))
            return fn(*args, **kwargs)

    return call


def _extended(
    running: Running, extensions: Extensions | None, loop: asyncio.AbstractEventLoop | None
) -> AbstractContextManager[None]:
    return nullcontext() if extensions is None else extensions.running(running, loop)


async def _enter(stack: AsyncExitStack, around: Around, running: Running) -> None:
    made: Any = around(running)
    if hasattr(made, "__aenter__"):
        await stack.enter_async_context(made)
    elif hasattr(made, "__enter__"):
        stack.enter_context(made)
    else:
        raise _no_context(around, made, "a context manager")


def _plain(around: Around, running: Running) -> Any:  # noqa: ANN401 - any context
    made: Any = around(running)
    if not hasattr(made, "__enter__"):
        raise _no_context(around, made, "a plain context manager, as its handler is sync")
    return made


def _no_context(around: Around, made: object, wanted: str) -> TaskError:
    name = getattr(around, "__qualname__", repr(around))
    return TaskError(f"around {name} must return {wanted}, not {type(made).__name__}")


# -- the end -----------------------------------------------------------------------------------

_VERDICTS: dict[type, Verdict] = {
    Succeeded: "succeeded",
    Retry: "retry",
    Dead: "dead",
    Snoozed: "snoozed",
    Waiting: "waiting",
    Cancelled: "cancelled",
    Released: "released",
}


def tell_end(extensions: Extensions, run: Run, outcome: Outcome | None, now: float) -> None:
    """Tell the extensions how the attempt of one job ended; None: it was somebody else's."""
    running, error = run.running, run.raised
    if running is None:
        return
    run.running = run.raised = None  # told once; and no circle of frames keeps the error alive
    ended_at = now if run.ended_at is None else run.ended_at
    began_at = ended_at if run.entered_at is None else run.entered_at
    end = Ended(
        job=next(one for one in running.jobs if one.id == run.job.id),
        verdict="lost" if outcome is None else _VERDICTS[type(outcome)],
        error=error,
        duration=ended_at - began_at,
        retry_in=outcome.delay if isinstance(outcome, Retry | Snoozed) else None,
    )
    extensions.ended(running, end)
