"""Blocking twins of async verbs: ``find = blocking(JobsView.find)`` in the class of a twin."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Runs(Protocol):
    """Runs a coroutine of the app and waits for it."""

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The value that the coroutine returns."""
        ...


class Twin(Generic[V_co]):
    """An async object, for code without an event loop."""

    __slots__ = ("_client", "_view")

    def __init__(self, client: Runs, view: V_co) -> None:
        self._client = client
        self._view = view


def blocking(
    verb: Callable[Concatenate[V, P], Coroutine[Any, Any, T]], /
) -> Callable[Concatenate[Twin[V], P], T]:
    """The blocking twin of an async method, with its name, parameters, result and docstring.

    It raises what the method raises, and ``InvalidArgument`` inside an event loop.
    """
    name: str = cast("Any", verb).__name__

    @functools.wraps(verb)
    def call(self: Twin[V], /, *args: P.args, **kwargs: P.kwargs) -> T:
        # Looked up by name: a subclass of the view may have a verb of its own. And the coroutine is
        # made only when it can run, or it would be reported as never awaited.
        own: Callable[P, Coroutine[Any, Any, T]] = getattr(self._view, name)
        return self._client.run(lambda: own(*args, **kwargs))

    return call
