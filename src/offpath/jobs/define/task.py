"""A task: a named, typed handler with its defaults. What ``@app.task`` makes of a function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from offpath.errors import InvalidArgument
from offpath.jobs.define.definition import Definition, TaskSettings, definition_of
from offpath.jobs.handler.context import Context
from offpath.jobs.values.blueprint import Blueprint, Sender, queue_level
from offpath.jobs.values.group_codecs import GroupCodecs
from offpath.jobs.values.group_values import GroupValues
from offpath.jobs.values.handle import Handle
from offpath.jobs.values.job import Job
from offpath.jobs.values.plan import Plan
from offpath.jobs.values.runnable import Around, BatchSpec, LogContext, OnEvent, OnFailure
from offpath.model import checks
from offpath.model.headers import TraceRelation
from offpath.model.job import NewJob
from offpath.model.options import (
    OptionLevel,
    Options,
    QueueOptions,
    RunOptions,
    decode_run,
    over,
    resolve,
)
from offpath.model.retry import BackoffFunction
from offpath.runtime.ids import parse_id
from offpath.runtime.seats import checked_seat
from offpath.runtime.signature import InputModel, ResultModel

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
G = TypeVar("G")


class BindOptions(QueueOptions, total=False):
    """The keywords of ``task.options(...)``."""

    within: Any
    """A connection or session of the caller's: the jobs join its transaction."""
    inline: bool | None
    """True if the job begins in this process at once, without waiting in its queue; None: as the
    task says."""


class Computes(NamedTuple):
    """The options of a task that are functions of its arguments."""

    unique: bool
    limit: bool
    fair_key: bool
    options: bool


class Sending(Generic[P, S, G]):
    """A task with options of one enqueue; what ``task.options(...)`` returns."""

    __slots__ = ("_blueprint", "_inline", "_options", "_within")

    def __init__(
        self,
        blueprint: Blueprint,
        options: OptionLevel | None = None,
        within: object = None,
        *,
        inline: bool | None = None,
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
        self.inline: bool = definition.inline
        self.defaults: OptionLevel = definition.defaults
        self.own_options: RunOptions = decode_run(blueprint.plain.run)
        self.template: NewJob = blueprint.template()
        self.backoff: BackoffFunction | None = blueprint.plain.backoff
        self.on_event: OnEvent | None = definition.on_event
        self.on_failure: OnFailure | None = definition.on_failure
        self.log_context: LogContext | None = definition.log_context
        self.around: tuple[Around, ...] = definition.around
        self.trace: TraceRelation | None = definition.trace
        self.computes = Computes(
            unique=definition.unique_of is not None,
            limit=definition.limit_of is not None,
            fair_key=definition.fair_key_of is not None,
            options=definition.computed is not None,
        )
        self.__wrapped__ = definition.fn
        self.__doc__ = definition.fn.__doc__
        self.__name__ = getattr(definition.fn, "__name__", self.name)
        self.__module__ = definition.fn.__module__

    if not TYPE_CHECKING:  # a type checker says itself that there is no such attribute

        def __getattr__(self, name: str) -> object:
            """Refuse a method of another library's tasks, with what to write here."""
            from offpath.model.other_words import VERBS, missing

            raise missing(self, f"{type(self).__name__!r} object", name, VERBS)

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
    made: type[Blueprint] = Blueprint,
    kind: Callable[[Definition, Blueprint], Task[..., Any, Any]] | None = None,
) -> Task[..., Any, Any]:
    """Make a task. Raises ``TaskError`` kinds and ``InvalidArgument``; registers nothing.

    ``context`` is what its first parameter may be; ``kind`` makes it of another class than follows
    from the function, and ``made`` makes its jobs.
    """
    definition = definition_of(fn, settings, codecs, strict, context, around)
    levels = (definition.defaults, app)
    plain = resolve(levels)
    checked_seat(plain.backoff, f"task {definition.name}: its backoff", plain=True)
    blueprint = made(
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
        strict=definition.strict,
    )
    task = kind or _KINDS[definition.is_async, definition.takes_context]
    return task(definition, blueprint)


_KINDS: dict[tuple[bool, bool], type[Task[..., Any, Any]]] = {
    (False, False): SyncTask,
    (False, True): SyncContextTask,
    (True, False): AsyncTask,
    (True, True): AsyncContextTask,
}
