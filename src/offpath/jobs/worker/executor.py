"""One attempt, from stored input to settlement: decode, run, judge.

Whatever a handler does (return, raise anything at all, hang, ignore its cancellation), the
attempt ends in one settlement. Inputs are never logged.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from offpath.jobs.values import names
from offpath.jobs.values.plan import Plan
from offpath.jobs.values.standby import stand_by
from offpath.jobs.worker.conclusion import concluded
from offpath.jobs.worker.fan_out import ours
from offpath.runtime.baggage import carry_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.values.run import Run
    from offpath.jobs.values.services import HandlerThreads
    from offpath.jobs.values.standby import Standby
    from offpath.jobs.worker.contexts import Contexts
    from offpath.jobs.worker.judge import Judge
    from offpath.jobs.worker.watch import Watch
    from offpath.model.settlement import Outcome, Settlement, Succeeded
    from offpath.runtime.clock import Clock
    from offpath.runtime.extensions import Extensions


class Executor:
    """Runs attempts. One for all of a worker's jobs; it keeps nothing between them."""

    def __init__(
        self,
        contexts: Contexts,
        judge: Judge,
        clock: Clock,
        *,
        threads: HandlerThreads,
        watch: Watch,
        standby: Callable[[Run], Standby],
        max_result_bytes: int,
        extensions: Extensions | None = None,
    ) -> None:
        self._contexts = contexts
        self._judge = judge
        self._monotonic = clock.monotonic
        self._threads = threads
        self._watch = watch
        self._standby = standby
        self._max_result_bytes = max_result_bytes
        self._extensions = extensions

    async def attempt(self, run: Run) -> Settlement | None:
        """Run the job and say how it ended; None when there is nothing left that we may write."""
        run.started_at = self._monotonic()
        judge = self._judge
        late = judge.unfit(run)
        if late is not None:
            return self._untried(run, late)
        try:
            if run.fault is not None:
                raise run.fault
            args, kwargs = run.task.inputs.decode(run.job.input)
        except Exception as error:  # noqa: BLE001 - any codec, any fault: the job is unreadable
            return self._untried(run, judge.unreadable(run, error))
        try:
            succeeded = await self._run(run, args, kwargs)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything
            # Before it is judged: the time of the app's classifier is not the handler's.
            self._end(run)
            if run.running is not None:
                run.raised = error
            outcome = await judge.raised(run, error)
        else:
            self._end(run)
            outcome = judge.returned(run, succeeded)
        return None if outcome is None else judge.settlement(run, outcome)

    def broken(self, run: Run, error: BaseException) -> Settlement:
        """Settle an attempt that the engine itself failed to run."""
        return self._untried(run, self._judge.broken(run, error))

    def _untried(self, run: Run, outcome: Outcome) -> Settlement:
        self._end(run)
        return self._judge.settlement(run, outcome)

    def _end(self, run: Run) -> None:
        run.over = True
        run.ended_at = self._monotonic()

    async def _run(self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Succeeded:
        task = run.task
        context = self._contexts.provide(run, args, kwargs)
        if run.options.timeout is not None or run.job.deadline is not None:
            self._watch.start(run, self._monotonic())
        if run.interrupted is not None:  # told before it had begun
            raise asyncio.CancelledError
        if task.takes_context:
            args = (context, *args)
        names.name_after(run if task.takes_context and task.batch is None else None)
        if self._judge.passes_on and task.batch is None:
            carry_on(self._judge.passed_on(run))
        stand_by(self._standby(run))
        run.entered_at = self._monotonic()
        fn = task.fn
        if task.around or self._extensions is not None:
            fn = self._surrounded(run)
        if task.is_async:
            run.begin()
            value = await fn(*args, **kwargs)
        else:
            value = await self._in_thread(run, fn, args, kwargs)
        if run.context is not None and run.context.suspension is not None:
            raise run.context.suspension  # the handler held it up
        if run.context is not None and run.job.deliveries > 1:
            await run.context.set_apart(value)
        return concluded(run, value, self._max_result_bytes)

    def _surrounded(self, run: Run) -> Callable[..., Any]:
        from offpath.jobs.worker.surround import surrounded  # most workers have none

        if ours(run):  # no handler of the user's
            return run.task.fn
        return surrounded((run,), run.task.fn, self._extensions)

    async def _in_thread(
        self, run: Run, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # noqa: ANN401 - whatever the handler returns
        loop = asyncio.get_running_loop()

        def call() -> Any:  # noqa: ANN401 - as above
            with suppress(RuntimeError):  # the loop is closed: nobody counts any more
                loop.call_soon_threadsafe(run.begin)
            return fn(*args, **kwargs)

        value = await self._threads.run(call)
        if isinstance(value, Plan):  # awaiting one is an error
            return value
        return await value if inspect.isawaitable(value) else value
