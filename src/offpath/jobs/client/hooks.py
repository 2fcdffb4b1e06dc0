"""Calling what users hooked in: told about everything, disturbing nothing.

Hooks run after the commit they tell of. Plain functions are called at once, coroutine functions
one after the other in a task of their own, in the order of the events. The end of a group is told
with its value, which mostly has to be read before: such an event takes the second way.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from offpath.errors import OffpathError, StoreUnavailable
from offpath.jobs.values.group_codecs import unsigned
from offpath.model.event import EventKind
from offpath.model.job import LeasedJob
from offpath.model.settlement import Succeeded
from offpath.runtime import log
from offpath.runtime.clock import SystemClock
from offpath.runtime.seats import checked_seat, contained, refuse_unrun, seated
from offpath.store.telemetry import moves

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from offpath.jobs.values.runnable import OnError, OnEvent, Runnable
    from offpath.model.event import JobEvent
    from offpath.model.group import GroupRecord
    from offpath.runtime.clock import Clock
    from offpath.runtime.metrics import Metrics
    from offpath.store.telemetry.moves import MoveStep

ReadGroups = Callable[[Sequence[str]], Awaitable[Sequence["GroupRecord"]]]
MOST_READ = 500
"""Groups read in one call."""
MOST_WAITING = 10_000
"""Events kept for slow async hooks; more are dropped, oldest first, and reported."""
CLOSE_PATIENCE = 2.0
"""Seconds that hooks get when the app is closed; what runs longer is cancelled and reported."""
GIVEN_UP = 0.3
"""Seconds for a cancelled hook to end."""
QUIET = 60.0
"""Seconds between two log lines of one kind."""

_log = log.logger("worker")


class HookOverload(OffpathError):
    """Async hooks were so slow that events were dropped."""

    code = "hook_overload"


class HookUnheard(OffpathError):
    """A job was enqueued on a blocking connection while no event loop could run an async hook."""

    code = "hook_unheard"


class HookHung(OffpathError):
    """A hook was not done when the app was closed, and was cancelled."""

    code = "hook_hung"

    @classmethod
    def of(cls, hook: str, patience: float | None) -> HookHung:
        """Of the hook of this name."""
        return cls(f"{hook} did not end within {patience:g} s of the close: it was cancelled")


def remaining(patience: float | None) -> Callable[[], float | None]:
    """Tells how many real seconds are left of so many from now; None: there is no end."""
    loop = asyncio.get_running_loop()
    end = None if patience is None else loop.time() + patience
    return lambda: None if end is None else max(end - loop.time(), 0.0)


async def given_up(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait a little for those that heed it."""
    tasks = tuple(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=GIVEN_UP)


class Reporter:
    """The receiver of all errors that the engine swallows: the user's ``on_error``, and the log.

    One line a minute for each kind of error, since what fails does so thousands of times. Of an
    outage the store itself tells, once when it begins and once when it ends.
    """

    def __init__(
        self,
        on_error: OnError | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._on_error = checked_seat(on_error, "on_error")
        self._metrics = metrics
        self._log = log.RateLimited(_log, clock or SystemClock(), QUIET)
        self._calls: set[asyncio.Future[None]] = set()

    def __call__(self, error: BaseException, phase: str) -> None:
        """Report ``error``, met in ``phase``. Never raises."""
        self._write(error, phase)
        if self._metrics is not None:
            self._metrics.counter("offpath_swallowed_errors_total", phase=phase).add()
        if self._on_error is None:
            return
        try:
            answer = self._on_error(error, phase)
            if inspect.isawaitable(answer):
                call = asyncio.ensure_future(seated(lambda: answer))
                self._calls.add(call)
                call.add_done_callback(self._called)
        except BaseException:  # noqa: BLE001 - there is nobody left to tell
            _log.debug("on_error raised", exc_info=True)

    def _called(self, call: asyncio.Future[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled() and call.exception() is not None:
            _log.debug("on_error raised", exc_info=call.exception())

    def _write(self, error: BaseException, phase: str) -> None:
        kind = type(error).__name__
        # A foreign error's text may quote job arguments or secrets; our own never does.
        text = f": {error}" if isinstance(error, OffpathError) else ""
        if not (isinstance(error, StoreUnavailable) and error.told):
            self._log.log(logging.WARNING, f"{phase} {kind}", "%s: %s%s", phase, kind, text)
        _log.debug("%s failed", phase, exc_info=error)


class Hooks:
    """The app's ``on_event`` first, then the task's. An observer of the instrumented store.

    ``hooked`` are the tasks that have a hook of their own, as of now.
    """

    ends_only = False

    def __init__(
        self,
        report: Reporter,
        on_event: OnEvent | None,
        tasks: Mapping[str, Runnable],
        groups: ReadGroups | None = None,
        hooked: Collection[str] = (),
    ) -> None:
        self._report = report
        self.tasks = hooked if on_event is None else None
        self._on_event = checked_seat(on_event, "on_event")
        self._tasks = tasks
        self._groups = groups
        self._line: deque[JobEvent] = deque()
        self._unread: set[str] = set()
        """Groups that are done and whose value is not read yet."""
        self._values: dict[str, str | None] = {}
        self._runner: asyncio.Task[None] | None = None

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:
        """Tell the hooks of committed transitions; nothing is built for tasks without a hook."""
        if self.tasks is not None:
            steps = [step for step in steps if step.move.task in self.tasks]
        for step in steps:
            self.deliver([self._with_value(one, step) for one in moves.events(step, at)])

    def deliver(self, events: Sequence[JobEvent]) -> None:
        """Tell the hooks of these events, in this order. Never raises."""
        for event in events:
            hooks = self._hooks(event.task)
            unread = event.kind is EventKind.GROUP_DONE and event.group_id in self._unread
            if self._runner is not None or unread or any(_is_async(hook) for hook in hooks):
                self._enqueue(event)
                continue
            for hook in hooks:
                try:
                    refuse_unrun(hook(event))
                except BaseException as error:  # noqa: BLE001 - a hook disturbs nothing
                    self._report(contained(error), "hook")

    async def flush(self, patience: float | None = None) -> None:
        """Return when every event delivered so far was told, or given up after ``patience``."""
        left = remaining(patience)
        while (runner := self._runner) is not None:
            await asyncio.wait((runner,), timeout=left())
            if left() == 0.0 and not runner.done():
                self._report(HookHung.of("on_event", patience), "hook")
                await given_up((runner,))
                return

    def forked(self) -> object:
        """In a child of a fork: leave what the parent has yet to tell, and who tells it there."""
        left = self._runner, self._line, self._unread, self._values
        self._runner, self._line, self._unread, self._values = None, deque(), set(), {}
        return left

    def _own(self, task: str) -> OnEvent | None:
        runnable = self._tasks.get(task)
        return None if runnable is None else runnable.on_event

    def _hooks(self, task: str) -> list[OnEvent]:
        return [hook for hook in (self._on_event, self._own(task)) if hook is not None]

    def _enqueue(self, event: JobEvent) -> None:
        if len(self._line) >= MOST_WAITING:
            self._unread.discard(self._line.popleft().group_id)
            self._report(HookOverload("async on_event hooks are too slow: events dropped"), "hook")
        self._line.append(event)
        if self._runner is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self._line.clear()
                self._report(
                    HookUnheard("an async on_event hook needs the app open in a loop"), "hook"
                )
                return
            self._runner = loop.create_task(self._run(), name="offpath hooks")

    async def _run(self) -> None:
        try:
            while self._line:
                await self._tell(self._line.popleft())
        finally:
            self._runner = None

    def _with_value(self, event: JobEvent, step: MoveStep) -> JobEvent:
        if event.kind is not EventKind.GROUP_DONE or self._groups is None:
            return event
        if _alone(step):
            return replace(event, result=_own_value(step))
        self._unread.add(event.group_id)
        return event

    async def _read(self, event: JobEvent) -> JobEvent:
        """The event with its group's value; those of all groups in the line are read at once."""
        if event.group_id in self._unread and self._groups is not None:
            wanted = tuple({event.group_id, *islice(self._unread, MOST_READ - 1)})
            self._unread.difference_update(wanted)
            try:
                self._values.update(
                    (one.id, unsigned(one.result)) for one in await self._groups(wanted)
                )
            except Exception as error:  # noqa: BLE001 - told without the value, which is reported
                self._report(error, "hook")
        value = self._values.pop(event.group_id, None)
        return event if value is None else replace(event, result=value)

    async def _tell(self, event: JobEvent) -> None:
        if event.kind is EventKind.GROUP_DONE:
            event = await self._read(event)
        for hook in self._hooks(event.task):
            try:
                await seated(hook, event)
            except Exception as error:  # noqa: BLE001 - a hook disturbs nothing
                self._report(error, "hook")


def done_groups(steps: Sequence[MoveStep]) -> list[str]:
    """The groups that these steps have ended."""
    return [step.job.group_id or step.job.id for step in steps if step.group_done]


class EndWatch:
    """Tells who waits which jobs and groups have ended in this process; an observer as well."""

    ends_only = True
    tasks = None

    def __init__(
        self,
        ended: Callable[[Sequence[str]], None],
        groups_done: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._ended = ended
        self._groups_done = groups_done

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:  # noqa: ARG002 - an observer's
        """Pass on the ids of jobs that ended."""
        ids = moves.ended(steps)
        if ids:
            self._ended(ids)
        if self._groups_done is not None and (groups := done_groups(steps)):
            self._groups_done(groups)


def _alone(step: MoveStep) -> bool:
    """True if a job is certain to be the only one that its group ever had."""
    job, settlement = step.job, step.settlement
    if settlement is None or not isinstance(job, LeasedJob):
        return False
    return job.group_id == job.id and job.deliveries == 1 and not settlement.effects


def _own_value(step: MoveStep) -> str | None:
    outcome = None if step.settlement is None else step.settlement.outcome
    return outcome.result if isinstance(outcome, Succeeded) and outcome.contributes else None


def _is_async(hook: OnEvent) -> bool:
    called = getattr(hook, "__call__", None)  # noqa: B004 - objects with an async __call__
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(called)
