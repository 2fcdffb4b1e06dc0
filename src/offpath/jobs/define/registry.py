"""The tasks of one app, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, overload

from offpath.errors import DuplicateTask, UnknownTask
from offpath.model import checks
from offpath.model.fan_out import TASK as FAN_OUT

_SHOWN = 5


class Registrable(Protocol):
    """The kinds of task that can be registered."""

    @property
    def name(self) -> str:
        """Its name in the store."""
        ...

    @property
    def fn(self) -> Callable[..., Any]:
        """The function, for error texts."""
        ...

    @property
    def on_event(self) -> object | None:
        """Its own event hook, if it has one."""
        ...


TaskT = TypeVar("TaskT", bound=Registrable)
D = TypeVar("D")


class Registry(Mapping[str, TaskT]):
    """Name → task. Names are stable and settable; they are never import paths."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskT] = {}
        self.known: Mapping[str, TaskT] = self._tasks
        """The same as a plain dict: each job that is enqueued asks it several times."""
        self.hooked: set[str] = set()
        """The names of tasks with an event hook of their own."""

    def __getitem__(self, name: str) -> TaskT:
        """The task of this name. Raises ``KeyError``; :meth:`named` says more."""
        return self._tasks[name]

    @overload
    def get(self, key: str, /) -> TaskT | None: ...
    @overload
    def get(self, key: str, /, default: TaskT | D) -> TaskT | D: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        """The task of this name, or the default. Each job that is enqueued asks several times."""
        return self._tasks.get(key, default)

    def __iter__(self) -> Iterator[str]:
        """All names, in the order of their definition."""
        return iter(tuple(self._tasks))

    def __len__(self) -> int:
        """The number of tasks."""
        return len(self._tasks)

    def add(self, task: TaskT) -> None:
        """Register a task. Raises ``DuplicateTask`` naming both places."""
        if task.name == FAN_OUT:
            raise DuplicateTask(
                f"{task.name!r} is a task of every worker: it queues large fan-outs; give "
                f"{place_of(task.fn)} another name, @app.task(name=...)"
            )
        present = self._tasks.get(task.name)
        if present is not None:
            raise DuplicateTask(
                f"two tasks are named {task.name!r}: {place_of(present.fn)} and "
                f"{place_of(task.fn)}; give one of them another, @app.task(name=...)"
            )
        self._tasks[task.name] = task
        if task.on_event is not None:
            self.hooked.add(task.name)

    def named(self, name: str) -> TaskT:
        """The task of this name. Raises ``UnknownTask`` listing names like it."""
        try:
            return self._tasks[checks.name(name, "task name")]
        except KeyError:
            near = self._near(name)
            raise UnknownTask(f"no task is named {name!r} in this app; {near}") from None

    def _near(self, name: str) -> str:
        if not self._tasks:
            return "it has none: is the module that defines them imported?"
        import difflib

        near = difflib.get_close_matches(name, self._tasks, n=_SHOWN, cutoff=0.5)
        if near:
            return f"did you mean {', '.join(map(repr, near))}?"
        return f"it has {', '.join(map(repr, sorted(self._tasks)[:_SHOWN]))}" + (
            ", …" if len(self._tasks) > _SHOWN else ""
        )


def place_of(fn: Callable[..., Any]) -> str:
    """The place where a function is defined, for error texts."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    name = getattr(fn, "__qualname__", repr(fn))
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else str(name)
