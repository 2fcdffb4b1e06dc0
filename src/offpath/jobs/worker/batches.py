"""Calls of batch handlers: jobs of one task that are collected, run together, and end one by one.

Each job of a call keeps its own lease, fence, retry policy, deadline and end. A call takes one
slot, from its first job on.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

from offpath.jobs.define.batch_task import outputs_of
from offpath.jobs.handler.batch_context import BatchContext
from offpath.jobs.values.standby import stand_by
from offpath.jobs.worker.conclusion import concluded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from offpath.jobs.values.run import Run
    from offpath.jobs.values.runnable import BatchSpec
    from offpath.jobs.values.services import HandlerThreads
    from offpath.jobs.values.standby import Standby
    from offpath.jobs.worker.contexts import Contexts
    from offpath.jobs.worker.hand import Hand
    from offpath.jobs.worker.judge import Judge
    from offpath.jobs.worker.watch import Watch
    from offpath.model.settlement import Outcome, Settlement
    from offpath.runtime.clock import Clock
    from offpath.runtime.extensions import Extensions

Input = tuple["Run", Any]
"""A job of a call and its decoded input."""
AT_ONCE = 20
"""The number of jobs whose last progress is written at once: the store has others to serve."""


class BatchCall:
    """The jobs of one call, from the first that waits for others to the end of the last."""

    def __init__(self, spec: BatchSpec) -> None:
        self.spec = spec
        self.items: list[Run] = []
        self.left = 0
        """The number of them that have not ended."""
        self.ready = asyncio.Event()
        """Set when it waits for no more jobs."""
        self.inside = False
        """True if the handler has been called and has not ended."""
        self.runner: asyncio.Task[None] | None = None

    @property
    def room(self) -> int:
        """The number of jobs that it still takes."""
        return 0 if self.ready.is_set() else self.spec.size - len(self.items)

    @property
    def unwanted(self) -> bool:
        """True if each of its jobs was asked to end."""
        return all(run.interrupted is not None or run.over for run in self.items)

    def add(self, run: Run) -> None:
        """Take one more job."""
        run.batch = self
        run.runner = self.runner
        self.items.append(run)
        self.left += 1
        if len(self.items) >= self.spec.size:
            self.ready.set()

    def nudge(self) -> None:
        """One of its jobs was told to end. The call goes on while another one wants it."""
        self.ready.set()  # what is told while it waits for others need not wait any longer
        if self.inside and self.runner is not None and self.unwanted:
            self.runner.cancel()


class Batches:
    """Collects the jobs of batch tasks and runs them. Belongs to one event loop."""

    def __init__(  # noqa: PLR0913 - a worker puts it together, once
        self,
        hand: Hand,
        contexts: Contexts,
        judge: Judge,
        clock: Clock,
        *,
        threads: HandlerThreads,
        watch: Watch,
        standby: Callable[[Run], Standby],
        ended: Callable[[Run, Settlement | None], None],
        progressed: Callable[[Run], Awaitable[bool]],
        report: Callable[[BaseException, str], None],
        max_result_bytes: int,
        extensions: Extensions | None = None,
    ) -> None:
        self._hand = hand
        self._contexts = contexts
        self._judge = judge
        self._clock = clock
        self._threads = threads
        self._watch = watch
        self._standby = standby
        self._ended = ended
        self._progressed = progressed
        self._report = report
        self._max_result_bytes = max_result_bytes
        self._extensions = extensions
        self._collecting: dict[str, BatchCall] = {}

    def join(self, run: Run) -> bool:
        """Add a taken job to the call that waits for more of its task; False: there is none."""
        call = self._collecting.get(run.job.task)
        if call is None or not call.room:
            return False
        self._hand.share_slot(run)
        self._add(call, run)
        return True

    def begin(self, run: Run, spec: BatchSpec) -> None:
        """Run a taken job, in whose slot a call begins unless another one has room for it."""
        if self.join(run):
            return
        call = BatchCall(spec)
        conduct = self._conduct(call, run.job.task)
        # A clean context, as for single jobs: it must not see the job whose lease made it.
        call.runner = asyncio.get_running_loop().create_task(conduct, context=Context())
        self._collecting[run.job.task] = call
        self._hand.joined()
        self._add(call, run)

    def flush(self) -> None:
        """Wait for no more jobs: run those that have been collected."""
        # A copy, since closing takes them out.
        for name, call in tuple(self._collecting.items()):
            call.ready.set()
            self._close(name, call)

    def _add(self, call: BatchCall, run: Run) -> None:
        call.add(run)
        if call.room:
            self._hand.joinable[run.job.task] = call.room
        else:
            self._close(run.job.task, call)

    def _close(self, name: str, call: BatchCall) -> None:
        if self._collecting.get(name) is call:
            del self._collecting[name]
            self._hand.joinable.pop(name, None)

    # -- one call --------------------------------------------------------------------------------

    async def _conduct(self, call: BatchCall, name: str) -> None:
        await self._clock.wait(call.ready, call.spec.max_wait)
        # Closed before the first input is read: what joined from here on would never be run.
        call.ready.set()
        self._close(name, call)
        try:
            inputs = [one for run in call.items if (one := await self._input(run)) is not None]
            if inputs:
                await self._run(call, name, inputs)
        except BaseException as error:  # noqa: BLE001 - our own fault: the jobs must still end
            self._report(error, "execute")
            for run in call.items:
                if not run.over:
                    self._end(run, self._judge.broken(run, error))

    async def _input(self, run: Run) -> Input | None:
        """A job's input; None when it is not to be run (any more), and has been ended."""
        if run.over:
            return None
        run.started_at = self._clock.monotonic()
        if run.interrupted is not None:
            self._end(run, await self._judge.raised(run, asyncio.CancelledError()))
            return None
        late = self._judge.unfit(run)
        if late is not None:
            self._end(run, late)
            return None
        try:
            if run.fault is not None:
                raise run.fault
            value = _only(*run.task.inputs.decode(run.job.input))
        except Exception as error:  # noqa: BLE001 - any codec, any fault: the job is unreadable
            self._end(run, self._judge.unreadable(run, error))
            return None
        return run, value

    async def _run(self, call: BatchCall, name: str, inputs: Sequence[Input]) -> None:
        now = self._clock.monotonic()
        for run, _ in inputs:
            run.entered_at = now
            if run.options.timeout is not None or run.job.deadline is not None:
                self._watch.start(run, now)
        try:
            outputs = outputs_of(name, await self._called(call, inputs), len(inputs))
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything
            outputs = [error] * len(inputs)
        # Before the ends: once an end is written, the fence refuses the last progress.
        await self._write_progress([run for run, _ in inputs])
        for (run, _), output in zip(inputs, outputs, strict=True):
            await self._end_with(run, output)

    async def _called(self, call: BatchCall, inputs: Sequence[Input]) -> Any:  # noqa: ANN401 - whatever the handler returns
        runs = [run for run, _ in inputs]
        arguments = self._arguments(inputs)
        is_async = runs[0].task.is_async
        stand_by(self._standby(runs[0]))
        fn = self._handler(call.spec, runs)
        # Of an async handler alone: a thread cannot be cancelled, and is told by its context.
        call.inside = is_async
        try:
            if is_async:
                _begin(runs)
                return await fn(*arguments)
            return await self._in_thread(fn, runs, arguments)
        finally:
            call.inside = False

    def _handler(self, spec: BatchSpec, runs: Sequence[Run]) -> Callable[..., Any]:
        if not (runs[0].task.around or self._extensions is not None):
            return spec.fn
        from offpath.jobs.worker.surround import surrounded  # most workers have none

        return surrounded(runs, spec.fn, self._extensions)

    def _arguments(self, inputs: Sequence[Input]) -> tuple[Any, ...]:
        values = [value for _, value in inputs]
        if not inputs[0][0].task.takes_context:
            return (values,)
        return BatchContext([self._contexts.item(*one) for one in inputs]), values

    async def _in_thread(
        self, fn: Callable[..., Any], runs: Sequence[Run], arguments: tuple[Any, ...]
    ) -> Any:  # noqa: ANN401 - as above
        loop = asyncio.get_running_loop()

        def inside() -> Any:  # noqa: ANN401 - as above
            with suppress(RuntimeError):  # the loop is closed: nobody counts any more
                loop.call_soon_threadsafe(_begin, runs)
            return fn(*arguments)

        value = await self._threads.run(inside)
        return await value if inspect.isawaitable(value) else value

    async def _write_progress(self, runs: Sequence[Run]) -> None:
        """Write what the handler told last: once its jobs have ended nobody writes it any more."""
        told = [run for run in runs if run.context is not None and run.context.unwritten]
        for start in range(0, len(told), AT_ONCE):
            several = [run for run in told[start : start + AT_ONCE] if not run.over]
            await asyncio.gather(*map(self._progressed, several))

    # -- ends ------------------------------------------------------------------------------------

    async def _end_with(self, run: Run, output: Any) -> None:  # noqa: ANN401 - any output
        """End one job by its own output, or by the error that stands for it."""
        if run.over:
            return
        try:
            if isinstance(output, BaseException):
                raise output
            succeeded = concluded(run, output, self._max_result_bytes)
        except BaseException as error:  # noqa: BLE001 - a handler may give anything
            if run.running is not None:
                run.raised = error
            outcome = await self._judge.raised(run, error)
        else:
            outcome = self._judge.returned(run, succeeded)
        self._end(run, outcome)

    def _end(self, run: Run, outcome: Outcome | None) -> None:
        if run.over:  # it was given up on meanwhile
            return
        run.over = True
        run.ended_at = self._clock.monotonic()
        settlement = None if outcome is None else self._judge.settlement(run, outcome)
        self._ended(run, settlement)


def _only(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - any input
    """The one argument, however it was bound."""
    (value,) = (*args, *kwargs.values())
    return value


def _begin(runs: Sequence[Run]) -> None:
    for run in runs:
        run.begin()
