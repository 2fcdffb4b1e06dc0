"""Reading a function's signature: its parameters and their types, resolved."""

# ruff: noqa: ANN401 - a codec takes and gives values of any type

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from types import SimpleNamespace
from typing import Any, get_args, get_origin

from msgspec import Struct

from offpath.errors import TaskError

Kind = inspect._ParameterKind  # noqa: SLF001 - public under inspect.Parameter, but not as a type
EMPTY = inspect.Parameter.empty


class Parameter(Struct, frozen=True):
    """One parameter that is part of a job's input. ``type`` is Any when it has no annotation."""

    name: str
    kind: Kind
    type: Any
    required: bool


def parameters(
    function: Callable[..., Any], *, context: bool, where: str
) -> tuple[inspect.Signature, tuple[Parameter, ...]]:
    """The signature without its leading context parameter, and the parameters left.

    Raises TaskError when an annotation cannot be resolved or there is no context parameter.
    """
    signature = inspect.signature(function)
    found = list(signature.parameters.values())
    if context:
        if not found:
            raise TaskError(f"{where}: it takes no parameter that could be the context")
        found = found[1:]
    names = _namespace(function)
    read = tuple(_parameter(one, names, where) for one in found)
    return signature.replace(parameters=found), read


def return_type(function: Callable[..., Any], where: str) -> Any:
    """The type that awaiting or calling ``function`` gives; Any without an annotation."""
    annotation = inspect.signature(function).return_annotation
    if annotation is EMPTY:
        return Any
    kind = resolve(annotation, _namespace(function), f"{where}: its return type")
    origin, args = get_origin(kind), get_args(kind)
    if origin is Coroutine:
        return args[2]
    if origin is Awaitable:
        return args[0]
    if origin in {Generator, AsyncGenerator}:
        raise TaskError(f"{where}: a generator cannot be a task: return a list")
    return kind


def resolve(annotation: Any, names: Mapping[str, Any], where: str) -> Any:
    """``annotation`` with its strings evaluated and Annotated kept; raises TaskError."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, dict(names), {}, include_extras=True)["it"]
    except NameError as error:
        raise TaskError(
            f"{where} {annotation!r} cannot be resolved ({error}): import it at run time, not "
            "under TYPE_CHECKING, and define it at module level"
        ) from error
    except Exception as error:
        raise TaskError(f"{where} {annotation!r} is not a usable type: {error}") from error


def _parameter(found: inspect.Parameter, names: Mapping[str, Any], where: str) -> Parameter:
    annotation = found.annotation
    if annotation is EMPTY:
        kind: Any = Any
    else:
        kind = resolve(annotation, names, f"{where}: parameter {found.name!r} of type")
    if found.kind is Kind.VAR_POSITIONAL:
        kind = tuple[kind, ...]
    elif found.kind is Kind.VAR_KEYWORD:
        kind = get_args(kind)[0] if get_origin(kind) is typing.Unpack else dict[str, kind]
    required = found.default is EMPTY and found.kind not in {
        Kind.VAR_POSITIONAL,
        Kind.VAR_KEYWORD,
    }
    return Parameter(found.name, found.kind, kind, required)


def _namespace(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that the function's annotations may use: its module's and what it closes over."""
    target: Any = inspect.unwrap(function)
    target = getattr(target, "func", target)  # functools.partial
    target = getattr(target, "__func__", target)  # a bound method
    if not hasattr(target, "__code__"):
        target = vars(type(target)).get("__call__", target)  # an object that can be called
    names = dict(getattr(target, "__globals__", {}))
    cells = getattr(target, "__closure__", None) or ()
    code = getattr(target, "__code__", None)
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
    return names
