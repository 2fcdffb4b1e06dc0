"""The ``around`` of a task: its app's, then its own, checked where the task is defined."""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from offpath.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpath.jobs.values.runnable import Around


def checked_around(given: Around | Sequence[Around] | None, where: str) -> tuple[Around, ...]:
    """The functions of a list, outermost first, or the one. Raises ``TaskError``."""
    if given is None:
        return ()
    several: Any = (given,) if callable(given) else given
    if isinstance(several, str) or not isinstance(several, list | tuple):
        raise TaskError(f"{where} is a function or a list of them, not {type(given).__name__}")
    for one in several:
        if not callable(one):
            raise TaskError(f"{where} takes functions of one Running, not {type(one).__name__}")
        if _is_bare(one):
            raise TaskError(
                f"{where}: {_name(one)} returns no context manager: put @contextmanager (or "
                "@asynccontextmanager) on it"
            )
    return tuple(several)


def arounds_of(
    app: tuple[Around, ...],
    own: Around | Sequence[Around] | None,
    task: str,
    *,
    is_async: bool,
) -> tuple[Around, ...]:
    """The arounds of a task: its app's, then its own. Raises ``TaskError``."""
    several = (*app, *checked_around(own, f"task {task}: around"))
    if not is_async:
        _require_sync(several, task)
    return several


def _require_sync(arounds: Sequence[Around], task: str) -> None:
    """Refuse, for a sync handler, what can only be entered in a coroutine."""
    for one in arounds:
        if _is_async(one):
            raise TaskError(
                f"task {task}: around {_name(one)} is async, but the handler is sync and runs in "
                "a thread: give it a plain context manager, or make the handler async"
            )


def _is_bare(function: object) -> bool:
    """True for a generator or coroutine function that nothing made a context manager of."""
    return (
        inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
        or inspect.iscoroutinefunction(function)
    )


def _is_async(function: Any) -> bool:  # noqa: ANN401 - any callable
    if isinstance(function, type):
        return hasattr(function, "__aenter__") and not hasattr(function, "__enter__")
    if inspect.isasyncgenfunction(inspect.unwrap(function)):  # under @asynccontextmanager
        return True
    try:
        returned = get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - an annotation that cannot be read tells nothing
        return False
    kind = get_origin(returned) or returned
    return kind is AbstractAsyncContextManager


def _name(function: object) -> str:
    return getattr(function, "__qualname__", repr(function))
