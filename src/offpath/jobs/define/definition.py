"""The definition of a task: a function and its settings, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import (
    Any,
    get_args,
)

from msgspec import Struct

from offpath.errors import TaskError
from offpath.jobs.handler.batch_context import BatchContext
from offpath.jobs.handler.context import Context
from offpath.jobs.values.group_codecs import GroupCodecs
from offpath.jobs.values.group_values import GroupValues, returned_types
from offpath.jobs.values.runnable import Around, LogContext, OnEvent, OnFailure
from offpath.model import checks
from offpath.model.headers import TraceRelation
from offpath.model.limit_options import LimitChoice
from offpath.model.option_checks import checked
from offpath.model.options import OptionLevel, Options, TaskOptions, Unique
from offpath.runtime.codec import Codec
from offpath.runtime.seats import checked_seat
from offpath.runtime.signature import InputModel, ResultModel


class TaskSettings(TaskOptions, total=False):
    """The keywords of ``@app.task(...)`` that are not a job's options."""

    name: str | None
    """Its name in the store; the function's name by default. Renaming it orphans stored jobs."""
    concurrency: int | None
    """The number of its jobs that one worker runs at once."""
    inline: bool | None
    """True if its jobs begin at once in the process that enqueues them, as ``inline=True`` of one
    enqueue. Where that cannot be (a delay, a limit, several at once, ``within``), they are queued.
    """
    unique: Callable[..., Unique | str | None] | Unique | str | None
    """A unique key, or a function of the task's arguments that gives one."""
    limit: Callable[..., LimitChoice] | LimitChoice
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
    trace: TraceRelation | None
    """``"parent"``: what traces its attempts makes them children of their enqueue; ``"link"``:
    traces of their own that are linked to it. None: as the tracing extension was told.
    """
    on_event: OnEvent | None
    on_failure: OnFailure | None
    log_context: LogContext | None


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
    inline: bool
    defaults: OptionLevel
    computed: Callable[..., Options | None] | None
    unique_of: Callable[..., Unique | str | None] | None
    limit_of: Callable[..., LimitChoice] | None
    fair_key_of: Callable[..., str | None] | None
    on_event: OnEvent | None
    on_failure: OnFailure | None
    log_context: LogContext | None
    around: tuple[Around, ...]
    trace: TraceRelation | None


def definition_of(
    fn: Callable[..., Any],
    settings: TaskSettings,
    codecs: GroupCodecs,
    strict: bool,
    kind: type,
    around: tuple[Around, ...],
) -> Definition:
    """The definition of a task, checked. Raises ``TaskError`` and ``InvalidArgument``."""
    _refuse_unfit(fn)
    _refuse_unknown(settings)
    name = _name_of(fn, settings.get("name"))
    concurrency = settings.get("concurrency")
    if concurrency is not None:
        checks.integer(concurrency, "concurrency", least=1, most=1_000_000)
    context = takes_context(fn, kind)
    codec = checked_codec(settings.get("codec"), f"task {name}: ") or codecs.app
    own, group = returned_types(fn, name)
    is_async = inspect.iscoroutinefunction(inspect.unwrap(fn))
    unique, limit, fair = settings.get("unique"), settings.get("limit"), settings.get("fair_key")
    inputs = InputModel(fn, context=context, codec=codec, name=name)
    for option in (*_ALSO_COMPUTED, "options"):
        _require_fit(settings.get(option), inputs, f"task {name}: {option}")
    return Definition(
        fn=fn,
        name=name,
        is_async=is_async,
        around=_around(around, settings.get("around"), name, is_async),
        trace=_trace(settings.get("trace"), name),
        takes_context=context,
        inputs=inputs,
        results=ResultModel(own, codec=codec, name=name),
        group_values=GroupValues(group, codec, name, codecs),
        strict=_flag(settings.get("strict"), f"task {name}: strict", strict),
        concurrency=concurrency,
        inline=_flag(settings.get("inline"), f"task {name}: inline", False),
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


def _trace(given: object, task: str) -> TraceRelation | None:
    if given is None:
        return None
    for relation in _RELATIONS:
        if given == relation:
            return relation
    raise TaskError(f'task {task}: trace is "link" or "parent", not {given!r:.80}')


_RELATIONS: tuple[TraceRelation, ...] = get_args(TraceRelation)


def _computing(setting: Any, where: str) -> Callable[..., Any] | None:  # noqa: ANN401 - a setting
    """The setting where it is a function of the task's arguments."""
    return checked_seat(setting, where, plain=True) if callable(setting) else None


def _flag(given: object, where: str, default: bool) -> bool:
    if given is None:
        return default
    if not isinstance(given, bool):
        raise TaskError(f"{where} is True or False, not {given!r:.80}")
    return given


def checked_codec(given: Codec | None, where: str = "") -> Codec | None:
    """The codec, or None, as it was given. Raises ``TaskError`` for what is not one."""
    missing = [each for each in ("encode", "decode") if not callable(getattr(given, each, None))]
    if given is not None and missing:
        raise TaskError(
            f"{where}a codec has encode(value) and decode(text, type); {given!r:.80} has no "
            f"{' and no '.join(missing)}"
        )
    return given


def _require_fit(setting: object, inputs: InputModel, where: str) -> None:
    """Refuse a function of the task's arguments that could never be called with them."""
    if not callable(setting):
        return
    try:
        wanted = inspect.signature(setting)
    except (TypeError, ValueError):
        return  # of a built-in, nothing is known
    kinds = [one.kind for one in inputs.parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        return
    named = {one.name for one in inputs.parameters if one.kind is one.kind.KEYWORD_ONLY}
    try:
        wanted.bind(*range(len(kinds) - len(named)), **dict.fromkeys(named))
    except TypeError as error:
        given = ", ".join(one.name for one in inputs.parameters) or "none"
        raise TaskError(
            f"{where} is called with the task's own arguments ({given}) but takes {wanted}: {error}"
        ) from None


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
    return checks.name(own if given is None else given, "task name")


def _refuse_unknown(settings: TaskSettings) -> None:
    known = tuple(dict.fromkeys((*TaskSettings.__annotations__, *TaskOptions.__annotations__)))
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
