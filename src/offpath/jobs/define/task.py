"""A task: a named, typed handler with its defaults. What ``@app.task`` makes of a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from msgspec import Struct

from offpath.errors import InvalidArgument, TaskError
from offpath.jobs.handler.batch_context import BatchContext
from offpath.jobs.handler.context import Context
from offpath.jobs.values.blueprint import Blueprint, Sender, queue_level
from offpath.jobs.values.group_codecs import GroupCodecs
from offpath.jobs.values.group_values import GroupValues, returned_types
from offpath.jobs.values.handle import Handle
from offpath.jobs.values.job import Job
from offpath.jobs.values.plan import Plan
from offpath.jobs.values.runnable import Around, BatchSpec, LogContext, OnEvent, OnFailure
from offpath.model import checks
from offpath.model.job import NewJob
from offpath.model.limit_options import Limit
from offpath.model.options import (
    OptionLevel,
    Options,
    QueueOptions,
    RunOptions,
    TaskOptions,
    Unique,
    checked,
    decode_run,
    over,
    resolve,
)
from offpath.model.retry import BackoffFunction
from offpath.runtime.codec import Codec
from offpath.runtime.ids import parse_id
from offpath.runtime.seats import checked_seat
from offpath.runtime.signature import InputModel, ResultModel

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
G = TypeVar("G")


class TaskSettings(TaskOptions, total=False):
    """The keywords of ``@app.task(...)`` that are not a job's options."""

    name: str | None
    """Its name in the store; the function's name by default. Renaming it orphans stored jobs."""
    concurrency: int | None
    """The number of its jobs that one worker runs at once."""
    unique: Callable[..., Unique | str | None] | Unique | str | None
    """A unique key, or a function of the task's arguments that gives one."""
    limit: Callable[..., Limit | Literal[False] | None] | Limit | Literal[False] | None
    """A limit over the fleet, or a function of the task's arguments that gives one."""
    fair_key: Callable[..., str | None] | str | None
    """The owner of a job for fair turns, or a function of the task's arguments that returns the
    owner.
    """
    options: Callable[..., Options | None] | None
    """A function of the task's arguments that gives options of the job."""
    codec: Codec | None
    strict: bool | None
    """True (the default) if a plan that the handler makes and does not return makes the job dead at
    once; False: it then has no effect.
    """
    around: Around | Sequence[Around] | None
    """Contexts of each call of its handler, outermost first, within the app's."""
    on_event: OnEvent | None
    on_failure: OnFailure | None
    log_context: LogContext | None


class BindOptions(QueueOptions, total=False):
    """The keywords of ``task.options(...)``."""

    within: Any
    """A connection or session of the caller's: the jobs join its transaction."""
    inline: bool
    """True if the job begins in this process at once, without waiting in its queue."""


class Sending(Generic[P, S, G]):
    """A task with options of one enqueue; what ``task.options(...)`` returns."""

    __slots__ = ("_blueprint", "_inline", "_options", "_within")

    def __init__(
        self,
        blueprint: Blueprint,
        options: OptionLevel | None = None,
        within: object = None,
        *,
        inline: bool = False,
    ) -> None:
        self._blueprint = blueprint
        self._options = options
        self._within = within
        self._inline = inline

    def __repr__(self) -> str:
        """Show the task's name."""
        return f"<{type(self).__name__} {self._blueprint.name}>"

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[S, G]:
        """An unsent job with an id: give it to ``app.enqueue``, or refer to it.

        Raises ``InvalidInput`` when the arguments do not fit the signature, ``TooLarge``.
        """
        if self._within is not None:
            raise InvalidArgument(
                "a job cannot carry a connection: write app.enqueue(job, within=connection)"
            )
        if self._inline:
            raise InvalidArgument(
                "a job does not know where it begins: write app.enqueue(job, inline=True); "
                "what a handler queues never begins inline"
            )
        return self._blueprint.job(args, kwargs, self._options)

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[S, G]:
        """Enqueue one job: when this returns, it is stored.

        Raises as :meth:`job` does, ``UniqueConflict``, and ``StoreUnavailable`` when it is
        unknown whether it was stored; to repeat safely, keep ``job = task.job(...)`` and call
        ``app.enqueue(job)`` again.
        """
        job = self._blueprint.job(args, kwargs, self._options, sent=True)
        sender = self._blueprint.sender
        (handle,) = await sender.send((job,), self._within, inline=self._inline)
        return handle

    def options(self, /, **options: Unpack[BindOptions]) -> Sending[P, S, G]:
        """The same task with other options for what is enqueued through it.

        Raises ``InvalidArgument`` for values that cannot be used.
        """
        within = options.pop("within", self._within)
        inline = options.pop("inline", self._inline)
        checks.known(options, BindOptions.__annotations__, "a job has no option")
        rest = cast("QueueOptions", options)
        given = queue_level(Options(**rest))
        return Sending(self._blueprint, over(given, self._options), within, inline=inline)


class Task(Sending[P, S, G]):
    """A registered task. Calling it calls the function, here and now, without a queue."""

    def __init__(self, definition: Definition, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        self.name: str = blueprint.name
        self.fn: Callable[..., Any] = definition.fn
        self.is_async: bool = definition.is_async
        self.takes_context: bool = definition.takes_context
        self.batch: BatchSpec | None = None
        self.inputs: InputModel = definition.inputs
        self.results: ResultModel = definition.results
        self.group_values: GroupValues = definition.group_values
        self.strict: bool = definition.strict
        self.concurrency: int | None = definition.concurrency
        self.defaults: OptionLevel = definition.defaults
        self.own_options: RunOptions = decode_run(blueprint.plain.run)
        self.template: NewJob = blueprint.template()
        self.backoff: BackoffFunction | None = blueprint.plain.backoff
        self.on_event: OnEvent | None = definition.on_event
        self.on_failure: OnFailure | None = definition.on_failure
        self.log_context: LogContext | None = definition.log_context
        self.around: tuple[Around, ...] = definition.around
        self.__wrapped__ = definition.fn
        self.__doc__ = definition.fn.__doc__
        self.__name__ = getattr(definition.fn, "__name__", self.name)
        self.__module__ = definition.fn.__module__

    if not TYPE_CHECKING:  # a type checker says itself that there is no such attribute

        def __getattr__(self, name: str) -> object:
            """Refuse a method of another library's tasks, with what to write here."""
            from offpath.model.other_words import VERBS

            ours = VERBS.get(name)
            hint = "" if ours is None else f"; write `{ours}`"
            msg = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(msg, name=name, obj=self)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - narrowed below
        """Call the function itself."""
        return self.fn(*args, **kwargs)

    def sending(self, options: OptionLevel | None = None) -> Sending[P, S, G]:
        """This task with checked options of one enqueue."""
        return Sending(self._blueprint, options)

    def handle(self, job_id: str, /) -> Handle[S, G]:
        """The handle of a job of this task that was enqueued before, here or elsewhere."""
        job_id = parse_id(job_id, "job_id")
        return self._blueprint.sender.handle(job_id, self.results.decode, self.group_values.decode)


class SyncTask(Task[P, S, G]):
    """A task on a function: it runs in a thread."""

    __slots__ = ()

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> S:
        """Call the function itself."""
        result: S = self.fn(*args, **kwargs)
        return result


class AsyncTask(Task[P, S, G]):
    """A task on a coroutine function."""

    __slots__ = ()

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, S]:
        """Call the function itself."""
        result: Coroutine[Any, Any, S] = self.fn(*args, **kwargs)
        return result


class SyncContextTask(Task[P, S, G]):
    """A task on a function that takes the context first."""

    __slots__ = ()

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> S:
        """Call the function itself."""
        result: S = self.fn(ctx, *args, **kwargs)
        return result


class AsyncContextTask(Task[P, S, G]):
    """A task on a coroutine function that takes the context first."""

    __slots__ = ()

    def __call__(
        self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, S]:
        """Call the function itself."""
        result: Coroutine[Any, Any, S] = self.fn(ctx, *args, **kwargs)
        return result


class Decorator(Protocol):
    """The decorator ``app.task(...)``: makes a task of the function under it."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, Plan[S, G]]], /
    ) -> AsyncContextTask[P, S, G]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, Plan[S, G] | None]], /
    ) -> AsyncContextTask[P, S | None, G | None]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextTask[P, R, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Plan[S, G]], /
    ) -> SyncContextTask[P, S, G]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Plan[S, G] | None], /
    ) -> SyncContextTask[P, S | None, G | None]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> SyncContextTask[P, R, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTask[P, R, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        """Make a task of ``fn``."""
        ...


class Definition(Struct, frozen=True, kw_only=True):
    """A function and what ``@app.task`` said of it, checked."""

    fn: Callable[..., Any]
    name: str
    is_async: bool
    takes_context: bool
    inputs: InputModel
    results: ResultModel
    group_values: GroupValues
    strict: bool
    concurrency: int | None
    defaults: OptionLevel
    computed: Callable[..., Options | None] | None
    unique_of: Callable[..., Unique | str | None] | None
    limit_of: Callable[..., Limit | Literal[False] | None] | None
    fair_key_of: Callable[..., str | None] | None
    on_event: OnEvent | None
    on_failure: OnFailure | None
    log_context: LogContext | None
    around: tuple[Around, ...]


def define(
    fn: Callable[..., Any],
    settings: TaskSettings,
    app: OptionLevel,
    codecs: GroupCodecs,
    sender: Sender,
    *,
    strict: bool = True,
    around: tuple[Around, ...] = (),
    context: type = Context,
    kind: Callable[[Definition, Blueprint], Task[..., Any, Any]] | None = None,
) -> Task[..., Any, Any]:
    """Make a task. Raises ``TaskError`` kinds and ``InvalidArgument``; registers nothing.

    ``context`` is what its first parameter may be; ``kind`` makes it of another class than follows
    from the function.
    """
    definition = _definition(fn, settings, codecs, strict, context, around)
    levels = (definition.defaults, app)
    plain = resolve(levels)
    checked_seat(plain.backoff, f"task {definition.name}: its backoff", plain=True)
    blueprint = Blueprint(
        name=definition.name,
        inputs=definition.inputs,
        decode=definition.results.decode,
        decode_group=definition.group_values.decode,
        sender=sender,
        levels=levels,
        plain=plain,
        computed=definition.computed,
        unique_of=definition.unique_of,
        limit_of=definition.limit_of,
        fair_key_of=definition.fair_key_of,
    )
    made = kind or _KINDS[definition.is_async, definition.takes_context]
    return made(definition, blueprint)


_KINDS: dict[tuple[bool, bool], type[Task[..., Any, Any]]] = {
    (False, False): SyncTask,
    (False, True): SyncContextTask,
    (True, False): AsyncTask,
    (True, True): AsyncContextTask,
}


def _definition(
    fn: Callable[..., Any],
    settings: TaskSettings,
    codecs: GroupCodecs,
    strict: bool,
    kind: type,
    around: tuple[Around, ...],
) -> Definition:
    _refuse_unfit(fn)
    _refuse_unknown(settings)
    name = _name_of(fn, settings.get("name"))
    concurrency = settings.get("concurrency")
    if concurrency is not None:
        checks.integer(concurrency, "concurrency", least=1, most=1_000_000)
    context = takes_context(fn, kind)
    codec = settings.get("codec") or codecs.app
    own, group = returned_types(fn, name)
    is_async = inspect.iscoroutinefunction(inspect.unwrap(fn))
    unique, limit, fair = settings.get("unique"), settings.get("limit"), settings.get("fair_key")
    return Definition(
        fn=fn,
        name=name,
        is_async=is_async,
        around=_around(around, settings.get("around"), name, is_async),
        takes_context=context,
        inputs=InputModel(fn, context=context, codec=codec, name=name),
        results=ResultModel(own, codec=codec, name=name),
        group_values=GroupValues(group, codec, name, codecs),
        strict=strict if settings.get("strict") is None else bool(settings.get("strict")),
        concurrency=concurrency,
        defaults=_task_level(settings),
        computed=checked_seat(settings.get("options"), f"task {name}: options", plain=True),
        unique_of=_computing(unique, f"task {name}: unique"),
        limit_of=_computing(limit, f"task {name}: limit"),
        fair_key_of=_computing(fair, f"task {name}: fair_key"),
        on_event=checked_seat(settings.get("on_event"), f"task {name}: on_event"),
        on_failure=checked_seat(settings.get("on_failure"), f"task {name}: on_failure"),
        log_context=checked_seat(
            settings.get("log_context"), f"task {name}: log_context", plain=True
        ),
    )


def _around(app: tuple[Around, ...], own: Any, task: str, is_async: bool) -> tuple[Around, ...]:  # noqa: ANN401 - a setting
    if not app and own is None:
        return ()
    from offpath.jobs.define.around import arounds_of  # few tasks have one

    return arounds_of(app, own, task, is_async=is_async)


def _computing(setting: Any, where: str) -> Callable[..., Any] | None:  # noqa: ANN401 - a setting
    """The setting where it is a function of the task's arguments."""
    return checked_seat(setting, where, plain=True) if callable(setting) else None


_ALSO_COMPUTED = ("unique", "limit", "fair_key")
"""Settings that a function of the task's arguments may give."""


def _task_level(settings: TaskSettings) -> OptionLevel:
    given: Any = {
        name: value
        for name, value in settings.items()
        if name in TaskOptions.__annotations__ or (name in _ALSO_COMPUTED and not callable(value))
    }
    return checked(Options(**given))


def _refuse_unfit(fn: object) -> None:
    if isinstance(fn, staticmethod | classmethod | type) or not callable(fn):
        raise TaskError(f"@app.task goes on a function, not on {fn!r}; put it directly above `def`")
    plain = inspect.unwrap(fn)
    _refuse_method(plain)
    if takes_context(fn, BatchContext):
        raise TaskError(
            f"task {plain.__qualname__}: a BatchContext is for @app.batch_task; annotate it as "
            "offpath.Context"
        )
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise TaskError(f"task {plain.__qualname__}: a handler returns a value, it cannot `yield`")


def _refuse_method(fn: object) -> None:
    """A function in a class gets its object where it is called on one, which no worker does."""
    outer, _, name = getattr(fn, "__qualname__", "").rpartition(".")
    first = next(iter(inspect.signature(fn).parameters), None)  # type: ignore[arg-type]
    if first in {"self", "cls"} and outer and not outer.endswith("<locals>"):
        raise TaskError(
            f"task {outer}.{name} is a method: `{first}` would be an argument of its jobs. Put "
            "@app.task on a function, or register the method of one object: "
            f"app.task(name=...)(thing.{name})"
        )


def _name_of(fn: Callable[..., Any], given: str | None) -> str:
    """The name in the store. Raises ``TaskError`` for a function that has none to be found by."""
    own = getattr(inspect.unwrap(fn), "__name__", "")
    if given is None and own in {"", "<lambda>"}:
        what = "a lambda" if own else f"an object of {type(fn).__name__}"
        raise TaskError(
            f"{what} has no name by which a worker could find it: give one, "
            'app.task(name="mail.send")(...), or write a function with def'
        )
    return checks.name(given or own, "task name")


def _refuse_unknown(settings: TaskSettings) -> None:
    known = (*TaskSettings.__annotations__, *TaskOptions.__annotations__)
    for name in settings:
        if name not in known:
            raise TaskError(f"@app.task has no setting {name!r}; {checks.like(name, known)}")


def takes_context(fn: Callable[..., Any], kind: type = Context) -> bool:
    """True if the first parameter is annotated with ``kind``: :class:`offpath.Context`."""
    first = next(iter(inspect.signature(fn).parameters.values()), None)
    if first is None or first.kind not in {first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD}:
        return False
    annotation = first.annotation
    if isinstance(annotation, str):
        names = getattr(inspect.unwrap(fn), "__globals__", {})
        return _names_context(annotation.strip("'\" "), names, kind)
    return isinstance(annotation, type) and issubclass(annotation, kind)


def _names_context(annotation: str, names: dict[str, Any], kind: type) -> bool:
    """A name that cannot be looked up (imported for type checkers only) is taken at its word."""
    found, *path = annotation.split(".")
    value: Any = names.get(found)
    for part in path:
        value = getattr(value, part, None)
    if value is None:
        return annotation.rpartition(".")[2] == kind.__name__
    return isinstance(value, type) and issubclass(value, kind)
