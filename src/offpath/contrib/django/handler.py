"""The native handler of a task: signals, context and connections around its function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

from offpath.contrib.django.connections import (
    fresh_async_connections,
    fresh_connections,
    is_away,
    snooze,
)
from offpath.contrib.django.names import TaskContext, normalize_json, signals
from offpath.contrib.django.results import begun, failed, succeeded
from offpath.errors import Abort, RetryAfter
from offpath.errors.control import ControlFlow
from offpath.jobs.handler.context import Context

if TYPE_CHECKING:
    from offpath.contrib.django.table import TaskTable
    from offpath.runtime.extension import Running

_RUN: Final[ContextVar[Running]] = ContextVar("offpath_django_run")


@contextmanager
def known_run(run: Running) -> Iterator[None]:
    """Let the handler know the call that it is in."""
    token = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(token)


def native(table: TaskTable, path: str) -> Callable[..., Any]:
    """The handler of the task with this name, async where its function is."""
    made = _async_handler if iscoroutinefunction(table.tasks[path].func) else _blocking_handler
    return made(table, path)


def _blocking_handler(table: TaskTable, path: str) -> Callable[..., Any]:
    def run(ctx: Context, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the task's own
        call = TaskRun(table, path, ctx, args, kwargs)
        with fresh_connections():
            call.tell(signals.task_started)
            try:
                value = normalize_json(call.task.func(*call.arguments, **kwargs))
            except BaseException as error:
                if (again := call.put_off(error)) is not None:
                    raise again from error
                if call.failed_for_good(error):
                    call.tell(signals.task_finished)
                raise
            call.succeeded(value)
            call.tell(signals.task_finished)
            return value

    return run


def _async_handler(table: TaskTable, path: str) -> Callable[..., Any]:
    async def run(ctx: Context, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the task's own
        call = TaskRun(table, path, ctx, args, kwargs)
        async with fresh_async_connections():
            await call.atell(signals.task_started)
            try:
                value = normalize_json(await call.task.func(*call.arguments, **kwargs))
            except BaseException as error:
                if (again := call.put_off(error)) is not None:
                    raise again from error
                if call.failed_for_good(error):
                    await call.atell(signals.task_finished)
                raise
            call.succeeded(value)
            await call.atell(signals.task_finished)
            return value

    return run


class TaskRun:
    """One run of a task: its result so far, as Django's signals and context show it."""

    def __init__(
        self,
        table: TaskTable,
        path: str,
        ctx: Context,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.task = table.tasks[path]
        self._sender = table.sender
        self._attempts = table.attempts[path]
        self._run = _RUN.get()
        self._result = begun(self.task, self._run, ctx.now(), list(args), kwargs)
        context = (TaskContext(task_result=self._result),) if self.task.takes_context else ()
        self.arguments: tuple[Any, ...] = (*context, *args)

    def tell(self, signal: Any) -> None:  # noqa: ANN401 - a Signal
        """Send a signal about this run."""
        signal.send(self._sender, task_result=self._result)

    async def atell(self, signal: Any) -> None:  # noqa: ANN401 - a Signal
        """Send a signal about this run; receivers that are not async run in a thread."""
        await signal.asend(self._sender, task_result=self._result)

    def put_off(self, error: BaseException) -> BaseException | None:
        """The way to run it again later, at no cost, when Django's database was away."""
        return snooze(self._run.deliveries) if is_away(error) else None

    def failed_for_good(self, error: BaseException) -> bool:
        """True if no other attempt will follow; the result then says so."""
        if isinstance(error, asyncio.CancelledError):
            return False
        if isinstance(error, ControlFlow) and not isinstance(error, Abort | RetryAfter):
            return False
        if not isinstance(error, Abort) and self._run.attempt < self._allowed(error):
            return False
        failed(self._result, error)
        return True

    def _allowed(self, error: BaseException) -> int:
        own = error.attempts if isinstance(error, RetryAfter) else None
        return self._attempts if own is None else own

    def succeeded(self, value: Any) -> None:  # noqa: ANN401 - JSON
        """Let the result say so."""
        succeeded(self._result, value)
