"""Batch tasks: handlers of many inputs at once, whose jobs are enqueued one by one."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    overload,
)

from offpath.errors import OutputMismatch, TaskError
from offpath.jobs.define.definition import takes_context
from offpath.jobs.define.task import Task, define
from offpath.jobs.handler.batch_context import BatchContext, BatchItem
from offpath.jobs.values.group_codecs import GroupCodecs
from offpath.jobs.values.plan import Plan
from offpath.jobs.values.runnable import Around, BatchSpec, LogContext, OnEvent, OnFailure
from offpath.model import checks
from offpath.model.headers import TraceRelation
from offpath.model.limit_options import LimitChoice
from offpath.model.options import OptionLevel, Options, TaskOptions, Unique
from offpath.runtime.codec import Codec
from offpath.runtime.parameters import EMPTY, Kind, parameters, return_type

if TYPE_CHECKING:
    from offpath.jobs.define.definition import Definition
    from offpath.jobs.define.registry import Registry
    from offpath.jobs.values.blueprint import Blueprint, Sender

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
G = TypeVar("G")

LARGEST = 1_000
"""Most jobs of one call."""
ITEM = "item"
"""The name in the store of the one argument of a batch task's job."""


class BatchSettings(TaskOptions, total=False):
    """The keywords of ``@app.batch_task(...)`` beside ``size`` and ``max_wait``."""

    name: str | None
    """Its name in the store; the function's name by default. Renaming it orphans stored jobs."""
    concurrency: int | None
    """The number of calls of it that one worker has at once."""
    inline: bool | None
    """True if a job begins at once where it is enqueued, in a call of its own."""
    unique: Callable[..., Unique | str | None] | Unique | str | None
    """A unique key, or a function of one input that gives one."""
    limit: Callable[..., LimitChoice] | LimitChoice
    """A limit over the fleet, or a function of one input that gives one."""
    fair_key: Callable[..., str | None] | str | None
    """The owner of a job for fair turns, or a function of one input that returns the owner."""
    options: Callable[..., Options | None] | None
    """A function of one input that gives options of its job."""
    codec: Codec | None
    strict: bool | None
    """True (the default) if a plan that is made for a job and is not its output makes that job dead
    at once; False: it then has no effect.
    """
    around: Around | Sequence[Around] | None
    """Contexts of each call of its function, outermost first, within the app's."""
    trace: TraceRelation | None
    """The relation to traces as for ``@app.task``; a call of several jobs is linked to all."""
    on_event: OnEvent | None
    on_failure: OnFailure | None
    log_context: LogContext | None
    """A function of one input that gives fields for the log records of its job."""


class BatchTask(Task[[T], S, G], Generic[T, S, G]):
    """A task on a function of many inputs. ``enqueue(x)`` takes one of them: a job of its own."""

    def __init__(self, definition: Definition, blueprint: Blueprint, spec: BatchSpec) -> None:
        super().__init__(definition, blueprint)
        self.batch: BatchSpec | None = spec
        self.__wrapped__ = spec.fn
        self._function = spec.fn


class SyncBatchTask(BatchTask[T, S, G]):
    """A batch task on a function: it runs in a thread."""

    __slots__ = ()

    def __call__(self, items: Sequence[T], /) -> Sequence[S | Exception | BaseException]:
        """Call the function itself: many inputs, many outputs."""
        outputs: Sequence[S | Exception | BaseException] = self._function(items)
        return outputs


class AsyncBatchTask(BatchTask[T, S, G]):
    """A batch task on a coroutine function."""

    __slots__ = ()

    def __call__(
        self, items: Sequence[T], /
    ) -> Coroutine[Any, Any, Sequence[S | Exception | BaseException]]:
        """Call the function itself: many inputs, many outputs."""
        outputs: Coroutine[Any, Any, Sequence[S | Exception | BaseException]] = self._function(
            items
        )
        return outputs


class SyncBatchContextTask(BatchTask[T, S, G]):
    """A batch task on a function that takes the context first."""

    __slots__ = ()

    def __call__(self, ctx: BatchContext, items: Sequence[T], /) -> Sequence[Any]:
        """Call the function itself: many inputs, many outputs (plans among them)."""
        outputs: Sequence[Any] = self._function(ctx, items)
        return outputs


class AsyncBatchContextTask(BatchTask[T, S, G]):
    """A batch task on a coroutine function that takes the context first."""

    __slots__ = ()

    def __call__(
        self, ctx: BatchContext, items: Sequence[T], /
    ) -> Coroutine[Any, Any, Sequence[Any]]:
        """Call the function itself: many inputs, many outputs (plans among them)."""
        outputs: Coroutine[Any, Any, Sequence[Any]] = self._function(ctx, items)
        return outputs


class BatchDecorator(Protocol):
    """The decorator ``app.batch_task(...)``: makes a batch task of the function under it."""

    # Exception is named beside BaseException because type checkers take a member of a union out of
    # the result only where it is named exactly.

    @overload
    def __call__(
        self,
        fn: Callable[
            [BatchContext, list[T]],
            Coroutine[Any, Any, Sequence[Plan[S, G] | Exception | BaseException]],
        ],
        /,
    ) -> AsyncBatchContextTask[T, S, G]: ...
    @overload
    def __call__(
        self,
        fn: Callable[
            [BatchContext, list[T]],
            Coroutine[Any, Any, Sequence[Plan[S, G] | Exception | BaseException | None]],
        ],
        /,
    ) -> AsyncBatchContextTask[T, S | None, G | None]: ...
    @overload
    def __call__(
        self,
        fn: Callable[
            [BatchContext, list[T]],
            Coroutine[Any, Any, Sequence[R | Exception | BaseException]],
        ],
        /,
    ) -> AsyncBatchContextTask[T, R, R]: ...
    @overload
    def __call__(
        self,
        fn: Callable[[BatchContext, list[T]], Sequence[Plan[S, G] | Exception | BaseException]],
        /,
    ) -> SyncBatchContextTask[T, S, G]: ...
    @overload
    def __call__(
        self,
        fn: Callable[
            [BatchContext, list[T]], Sequence[Plan[S, G] | Exception | BaseException | None]
        ],
        /,
    ) -> SyncBatchContextTask[T, S | None, G | None]: ...
    @overload
    def __call__(
        self,
        fn: Callable[[BatchContext, list[T]], Sequence[R | Exception | BaseException]],
        /,
    ) -> SyncBatchContextTask[T, R, R]: ...
    @overload
    def __call__(
        self,
        fn: Callable[[list[T]], Coroutine[Any, Any, Sequence[R | Exception | BaseException]]],
        /,
    ) -> AsyncBatchTask[T, R, R]: ...
    @overload
    def __call__(
        self, fn: Callable[[list[T]], Sequence[R | Exception | BaseException]], /
    ) -> SyncBatchTask[T, R, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        """Make a batch task of ``fn``."""
        ...


class BatchVerbs:
    """The verbs of an app that make batch tasks."""

    tasks: Registry[Task[..., Any, Any]]
    """The tasks of this app, by name."""
    _level: OptionLevel
    _codec: Codec
    _strict: bool
    _around: tuple[Around, ...]

    def _sender(self) -> Sender:
        raise NotImplementedError

    @property
    def _codecs(self) -> GroupCodecs:
        return GroupCodecs(self._codec, self.tasks)

    def batch_task(
        self,
        /,
        *,
        size: int,
        max_wait: float | timedelta = 0.1,
        **settings: Unpack[BatchSettings],
    ) -> BatchDecorator:
        """Make a batch task of a function: ``@app.batch_task(size=50, max_wait=0.2)``.

        The function takes a list of inputs and returns a list with one output for each, in their
        order; it may be sync (it runs in a thread) or async, and may take a
        :class:`BatchContext` first, which has an item for each of them. ``enqueue`` takes
        one input and makes one job. A worker calls the function with up to ``size`` of them (at
        most 1,000), at the latest ``max_wait`` seconds after it has the first one.

        An output may be a plan, made by the job's own item: ``item.queue(...)``. One that is an
        exception fails that job alone: ``Abort``, ``Snooze`` and ``CoolDown`` do what they do when
        a handler raises them, any other counts as a failed attempt. What the function raises
        happens to each job of the call, and each follows its own retry policy.

        Raises ``TaskError`` kinds, ``DuplicateTask`` and ``InvalidArgument``.
        """
        checks.integer(size, "size", least=1, most=LARGEST)
        wait = checks.seconds(max_wait, "max_wait")
        _refuse_unknown(settings)

        def register(fn: Callable[..., Any]) -> Any:  # noqa: ANN401 - the decorator's overloads say
            spec = BatchSpec(fn=fn, size=size, max_wait=wait)
            task = _batch_task(
                spec,
                settings,
                self._level,
                self._codecs,
                self._sender(),
                strict=self._strict,
                around=self._around,
            )
            self.tasks.add(task)
            return task

        return cast("BatchDecorator", register)


def outputs_of(name: str, outputs: object, count: int) -> Sequence[Any]:
    """The outputs of a call, if there are as many as inputs. Raises ``OutputMismatch``."""
    wanted = "return a list with one output for each input, in their order"
    if not isinstance(outputs, Sequence) or isinstance(outputs, str | bytes):
        kind = type(outputs).__name__
        raise OutputMismatch(
            f'batch "{name}" returned {kind}, which is not a list of outputs, '
            f"for {count} inputs: {wanted}"
        )
    if len(outputs) != count:
        raise OutputMismatch(
            f'batch "{name}" returned {len(outputs)} outputs for {count} inputs: {wanted}'
        )
    return outputs


def _batch_task(
    spec: BatchSpec,
    settings: BatchSettings,
    app: OptionLevel,
    codecs: GroupCodecs,
    sender: Sender,
    *,
    strict: bool,
    around: tuple[Around, ...],
) -> BatchTask[Any, Any, Any]:
    if isinstance(spec.fn, staticmethod | classmethod | type) or not callable(spec.fn):
        raise TaskError(f"@app.batch_task goes on a function, not on {spec.fn!r}")
    name = str(settings.get("name") or getattr(spec.fn, "__name__", ""))
    is_async = inspect.iscoroutinefunction(inspect.unwrap(spec.fn))
    kind = _KINDS[is_async, takes_context(spec.fn, BatchContext)]

    def make(definition: Definition, blueprint: Blueprint) -> Task[..., Any, Any]:
        return kind(definition, blueprint, spec)

    one = _for_one(spec.fn, name, is_async=is_async)
    made = define(
        one,
        settings,
        app,
        codecs,
        sender,
        strict=strict,
        around=around,
        context=BatchItem,
        kind=make,
    )
    return cast("BatchTask[Any, Any, Any]", made)


_KINDS: dict[tuple[bool, bool], type[BatchTask[Any, Any, Any]]] = {
    (False, False): SyncBatchTask,
    (False, True): SyncBatchContextTask,
    (True, False): AsyncBatchTask,
    (True, True): AsyncBatchContextTask,
}


def _for_one(fn: Callable[..., Any], name: str, *, is_async: bool) -> Callable[..., Any]:
    """The same handler for one input: its signature is what a job of the task is made of."""
    signature = _signature(fn, f"batch task {name!r}")

    async def later(outputs: Awaitable[Any]) -> Any:  # noqa: ANN401 - any result
        return _only(name, await outputs)

    async def one_async(*given: Any) -> Any:  # noqa: ANN401 - any result
        return _only(name, await fn(*_as_call(*given)))

    def one_sync(*given: Any) -> Any:  # noqa: ANN401 - any result
        outputs = fn(*_as_call(*given))
        return later(outputs) if inspect.isawaitable(outputs) else _only(name, outputs)

    one: Any = functools.update_wrapper(one_async if is_async else one_sync, fn)
    one.__signature__ = signature
    return cast("Callable[..., Any]", one)


def _as_call(*given: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any input
    """The arguments of a call for one job: of its context, if it takes one, and its input."""
    *context, item = given
    return (*(BatchContext(context) for _ in context), [item])


def _only(name: str, outputs: object) -> Any:  # noqa: ANN401 - any result
    (output,) = outputs_of(name, outputs, 1)
    if isinstance(output, BaseException):
        raise output
    return output


def _signature(fn: Callable[..., Any], where: str) -> inspect.Signature:
    if takes_context(fn):
        raise TaskError(
            f"{where}: a call is for many jobs, so its context is "
            "an offpath.batch_tasks.BatchContext: annotate it so, or leave it out"
        )
    context = takes_context(fn, BatchContext)
    _, read = parameters(fn, context=context, where=where)
    if len(read) != 1 or read[0].kind not in {Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD}:
        raise TaskError(
            f"{where}: its function takes one parameter, the list of inputs (after the context, "
            "ctx: offpath.batch_tasks.BatchContext, if it takes one)"
        )
    given = _element(read[0].type, f"{where}: its parameter {read[0].name!r}")
    returned = _element(return_type(fn, where), f"{where}: its return type")
    item = inspect.Parameter(ITEM, Kind.POSITIONAL_OR_KEYWORD, annotation=given)
    first = inspect.Parameter("ctx", Kind.POSITIONAL_ONLY, annotation=BatchItem)
    return inspect.Signature(
        [first, item] if context else [item], return_annotation=_without_errors(returned)
    )


_LISTS = (list, Sequence, Collection, Iterable)


def _element(kind: Any, where: str) -> Any:  # noqa: ANN401 - types
    """The type of the elements in a list of this type."""
    if kind is Any or kind is EMPTY or kind in _LISTS:
        return Any
    if get_origin(kind) in _LISTS:
        return get_args(kind)[0]
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return get_args(kind)[0]
    raise TaskError(f"{where} must be a list, as list[int], not {kind!r}")


def _without_errors(kind: Any) -> Any:  # noqa: ANN401 - types
    """The outputs that are results: an exception stands for a failure and is never stored."""
    union = get_origin(kind) in {Union, types.UnionType}
    members = get_args(kind) if union else (kind,)
    left = [one for one in members if not _is_error(one)]
    if len(left) == len(members):
        return kind
    return Union[tuple(left)] if left else type(None)  # noqa: UP007 - made at run time


def _is_error(kind: Any) -> bool:  # noqa: ANN401 - types
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _refuse_unknown(settings: BatchSettings) -> None:
    known = (*BatchSettings.__annotations__, "size", "max_wait")
    for name in settings:
        if name not in known:
            raise TaskError(
                f"@app.batch_task has no setting {name!r}; it has {', '.join(sorted(known))}"
            )
