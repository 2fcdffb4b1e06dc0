"""The native handler of a Celery task: its request, its retries, its callbacks, its signals."""

# ruff: noqa: ANN401 - arguments are of any type

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from offpath.contrib.celery import signals
from offpath.contrib.celery.exceptions import Retry, TaskRevokedError, TimeLimitExceeded
from offpath.contrib.celery.placement import callback_job
from offpath.contrib.celery.results import FAILURE, RETRY, SUCCESS, exception_of, value_of
from offpath.contrib.celery.running_call import (
    JobNote,
    TaskRequest,
    current_request,
    enter,
    leave,
    note_of,
    request_of,
)  # fmt: skip
from offpath.contrib.celery.soft_limit import within_soft_limit
from offpath.contrib.celery.values import revived, stored
from offpath.errors import Abort, RetryAfter
from offpath.errors.control import ControlFlow
from offpath.jobs.handler.context import Context
from offpath.jobs.values.run import Interruption
from offpath.model.job import JobRecord, JobState

if TYPE_CHECKING:
    from offpath.contrib.celery.app_face import AppFace
    from offpath.contrib.celery.tasks import CeleryTask


def native_handler(app: AppFace, task: CeleryTask) -> Callable[..., Any]:
    """The handler of a task. Its signature is the function's: so are stored arguments."""
    signature = task.parameters()

    def run(ctx: Context, /, *args: Any, **kwargs: Any) -> Any:
        call = _CeleryCall(app, task, ctx)
        given = signature.bind(*revived(args), **revived(kwargs))
        call.take_results(given)
        return call.run(given.args, given.kwargs)

    async def run_async(ctx: Context, /, *args: Any, **kwargs: Any) -> Any:
        call = _CeleryCall(app, task, ctx)
        given = signature.bind(*revived(args), **revived(kwargs))
        await call.take_results_async(given)
        return await call.run_async(given.args, given.kwargs)

    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_ONLY, annotation=Context)
    made: Any = functools.update_wrapper(run_async if task.is_async else run, task.run)
    made.__signature__ = signature.replace(parameters=[context, *signature.parameters.values()])
    handler: Callable[..., Any] = made
    return handler


class _CallEnd:
    """The end of one call, as its signals tell it."""

    def __init__(self) -> None:
        self.state = FAILURE  # until something else is known
        self.value: Any = None

    def succeeded(self, value: Any) -> Any:
        """Note the value; returns it."""
        self.state, self.value = SUCCESS, value
        return value


class _CeleryCall:
    """One attempt."""

    def __init__(self, app: AppFace, task: CeleryTask, ctx: Context) -> None:
        self._app = app
        self._task = task
        self._ctx = ctx
        self._note: JobNote = note_of(ctx.headers)

    def take_results(self, given: inspect.BoundArguments) -> None:
        """Put the results of what it waited for in the place of the first argument."""
        if self._note.take is not None:
            self._take(given, self._app.records(self._ctx.dependents))

    async def take_results_async(self, given: inspect.BoundArguments) -> None:
        """Do the same in the worker's event loop."""
        if self._note.take is not None:
            found = await self._app.offpath.store().get(self._ctx.dependents)
            rows = {one.id: one for one in found}
            self._take(given, [rows[one] for one in self._ctx.dependents])

    def _take(self, given: inspect.BoundArguments, records: Sequence[JobRecord]) -> None:
        values = [value_of(one) for one in records]
        value = values if self._note.take == "list" else values[0]
        first, kind = next((one.name, one.kind) for one in given.signature.parameters.values())
        if kind is inspect.Parameter.VAR_POSITIONAL:
            given.arguments[first] = (value, *given.arguments[first][1:])
        else:
            given.arguments[first] = value

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the function; raises what the worker understands.

        Raises ``RetryAfter`` where it is to run again, otherwise ``Abort`` with what it raised.
        """
        with self._told(args, kwargs) as ended:
            with self._judged():
                value = self._task(*args, **kwargs)
            return stored(ended.succeeded(self._followed(value)))

    async def run_async(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Await the function; raises as :meth:`run`."""
        with self._told(args, kwargs) as ended:
            with self._judged():
                value = await self._within_limit(self._task(*args, **kwargs))
            return stored(ended.succeeded(self._followed(value)))

    async def _within_limit(self, call: Coroutine[Any, Any, Any]) -> Any:
        limit = self._task.terms.soft_time_limit
        if limit is None:
            return await call
        return await within_soft_limit(call, limit, self._app.offpath.clock)

    @contextmanager
    def _told(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[_CallEnd]:
        """The request around a call, and the signals about it."""
        expires = self._note.expires
        if expires is not None and self._ctx.now() > expires:
            raise Abort("expired") from TaskRevokedError("expired")
        token = enter(request_of(self._ctx, self._note, args, kwargs))
        told = {"args": args, "kwargs": kwargs}
        self._tell("task_prerun", **told)
        ended = _CallEnd()
        try:
            yield ended
        except RetryAfter as again:
            ended.state, ended.value = RETRY, again.__cause__
            self._tell("task_retry", request=current_request(), reason=again.__cause__, einfo=None)
            raise
        except Abort as end:
            error = end.__cause__ or end
            ended.state, ended.value = FAILURE, error
            self._tell(
                "task_failure", **told, exception=error, traceback=error.__traceback__, einfo=None
            )
            raise
        finally:
            self._tell("task_postrun", **told, state=ended.state, retval=ended.value)
            leave(token)

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """The end of the function, in our own words."""
        try:
            yield
            if self._ctx.interruption is Interruption.TIMEOUT:
                raise TimeLimitExceeded(f"{self._task.name} ran longer than its time_limit")
        except ControlFlow:
            raise
        except Exception as error:  # noqa: BLE001 - what a task raises is its end
            self._ended_with(error)

    def _followed(self, value: Any) -> Any:
        """The value of a success, whose followers are sent."""
        for each in self._note.link:
            # joined to the end of this attempt: sent once, whatever happens
            self._ctx.enqueue(callback_job(self._app, each, [value]))
        self._tell("task_success", result=value)
        return value

    def _ended_with(self, error: Exception) -> NoReturn:
        again = error if isinstance(error, Retry) else self._again(error)
        if again is None:
            raise Abort(str(error) or type(error).__name__) from error
        raise RetryAfter(again.delay, attempts=again.runs, reason=str(again)) from (
            again.exc or again
        )

    def _again(self, error: Exception) -> Retry | None:
        """The retry of an error that ``autoretry_for`` names."""
        terms, retries = self._task.terms, self._ctx.attempt - 1
        if isinstance(error, terms.dont_autoretry_for) or retries >= terms.retries():
            return None
        if not isinstance(error, terms.autoretry_for):
            return None
        return Retry(exc=error, delay=terms.wait(retries), runs=retries + 2)

    def _tell(self, signal: str, **named: Any) -> None:
        named |= {"task_id": self._ctx.id, "task": self._task}
        signals.SENT[signal].send(self._task, **named)


def errback_handler(app: AppFace) -> Callable[..., Any]:
    """The handler that calls the errback of a job that has failed for good."""

    def run(ctx: Context, signature: Any) -> Any:  # Any: handles of all jobs are made by it
        (watched,) = app.records(ctx.dependents)
        if watched.state is JobState.SUCCEEDED:
            return None
        called = revived(signature)
        task = app.functions[called["task"]]
        error = exception_of(watched)
        if len(task.parameters().parameters) <= 1 + len(called["args"]):
            ctx.enqueue(callback_job(app, signature, [watched.id]))
            return None
        request = TaskRequest(id=watched.id, task=watched.task)
        failure = None if watched.failure is None else watched.failure.traceback
        made = task(request, error, failure, *called["args"], **called["kwargs"])
        if task.is_async:
            ctx.blocking(made)
        return None

    return run
