"""``app.task`` and ``app.by_name``: how an app comes by its tasks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar, Unpack, overload

from offpath.jobs.define.batch_task import BatchVerbs
from offpath.jobs.define.definition import TaskSettings
from offpath.jobs.define.task import (
    AsyncContextTask,
    AsyncTask,
    Decorator,
    P,
    R,
    Sending,
    SyncContextTask,
    SyncTask,
    Task,
    define,
)
from offpath.jobs.handler.context import Context
from offpath.jobs.values.blueprint import (
    AnyInputs,
    Blueprint,
    ElsewhereBlueprint,
    queue_level,
)
from offpath.jobs.values.group_values import GroupValues
from offpath.jobs.values.plan import Plan
from offpath.model import checks
from offpath.model.options import OptionLevel, resolve
from offpath.model.other_words import OF_APP, refusing
from offpath.runtime.signature import ResultModel

if TYPE_CHECKING:
    from offpath.jobs.define.registry import Registry
    from offpath.jobs.values.blueprint import Sender
    from offpath.jobs.values.runnable import Around
    from offpath.model.options import Options
    from offpath.runtime.codec import Codec

S = TypeVar("S")
G = TypeVar("G")
AnyTask = Task[..., Any, Any]


class TaskVerbs(BatchVerbs):
    """The verbs of an app for tasks."""

    tasks: Registry[AnyTask]
    """The tasks of this app, by name."""
    _level: OptionLevel
    _codec: Codec
    _strict: bool
    _around: tuple[Around, ...]

    if not TYPE_CHECKING:  # a type checker says itself that there is no such attribute
        __getattr__ = refusing(OF_APP)

    def _sender(self) -> Sender:
        raise NotImplementedError

    @overload
    def task(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, Plan[S, G]]], /
    ) -> AsyncContextTask[P, S, G]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, Plan[S, G] | None]], /
    ) -> AsyncContextTask[P, S | None, G | None]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextTask[P, R, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Plan[S, G]], /
    ) -> SyncContextTask[P, S, G]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Plan[S, G] | None], /
    ) -> SyncContextTask[P, S | None, G | None]: ...
    @overload
    def task(self, fn: Callable[Concatenate[Context, P], R], /) -> SyncContextTask[P, R, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, fn: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R, R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> SyncTask[P, R, R]: ...
    @overload
    def task(self, /, **settings: Unpack[TaskSettings]) -> Decorator: ...
    def task(
        self, fn: Callable[..., Any] | None = None, /, **settings: Unpack[TaskSettings]
    ) -> Any:
        """Make a task of a function: ``@app.task`` or ``@app.task(name=..., retry=5)``.

        The function may be sync (it runs in a thread) or async, and may take a
        :class:`offpath.Context` first. It stays callable as before.

        Raises ``DuplicateTask``, ``UnsupportedType`` and ``InvalidArgument``.
        """
        if fn is None:
            return lambda function: self._register(function, settings)
        return self._register(fn, settings)

    def _register(self, fn: Callable[..., Any], settings: TaskSettings) -> AnyTask:
        task = define(
            fn,
            settings,
            self._level,
            self._codecs,
            self._sender(),
            strict=self._strict,
            around=self._around,
        )
        self.tasks.add(task)
        return task

    @overload
    def elsewhere(
        self, fn: Callable[P, Plan[S, G]], /, **settings: Unpack[TaskSettings]
    ) -> SyncTask[P, S, G]: ...
    @overload
    def elsewhere(
        self, fn: Callable[P, R], /, **settings: Unpack[TaskSettings]
    ) -> SyncTask[P, R, R]: ...
    def elsewhere(self, fn: Callable[..., Any], /, **settings: Unpack[TaskSettings]) -> Any:
        """A task of another service by a function of its signature, as ``offpath stubs`` writes it.

        Its jobs are checked and encoded here, and run there, with the retries, timeout and
        retention of the task as that service defines it unless they are given here. Workers of this
        app do not take them. Raises as :meth:`task` does.
        """
        return define(
            fn,
            settings,
            OptionLevel(),
            self._codecs,
            self._sender(),
            made=ElsewhereBlueprint,
        )

    def by_name(
        self, name: str, /, options: Options | None = None, *, registered: bool = True
    ) -> Sending[..., Any, Any]:
        """A task by its name, for callers that do not import it.

        ``registered=False`` accepts a task that only other services know: its arguments are given
        by keyword and not checked here. Otherwise raises ``UnknownTask`` with names like it.
        """
        level = None if options is None else queue_level(options)
        if not registered and name not in self.tasks:
            return Sending(self._foreign(name), level)
        return self.tasks.named(name).sending(level)

    def _foreign(self, name: str) -> Blueprint:
        name = checks.name(name, "task name")
        results = ResultModel(Any, codec=self._codec, name=name)
        return Blueprint(
            name=name,
            inputs=AnyInputs(name, self._codec),
            decode=results.decode,
            decode_group=GroupValues(Any, self._codec, name, self._codecs).decode,
            sender=self._sender(),
            levels=(self._level,),
            plain=resolve((self._level,)),
            strict=self._strict,
        )
