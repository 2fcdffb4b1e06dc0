"""The decorator of Django's tasks, with our options beside Django's on every version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from offpath.contrib.django.names import task_backends

_DEFAULTS: Final[dict[str, Any]] = {"priority": 0, "queue_name": "default", "run_after": None}
"""The defaults of Django's own decorator: a ``Task`` of Django 6.0 has none itself."""


def task(
    function: Callable[..., Any] | None = None,
    *,
    backend: str = "default",
    **options: Any,  # noqa: ANN401 - those of a task's class
) -> Any:  # noqa: ANN401 - a Task, or a decorator that makes one
    """Make a task, as Django's own decorator does.

    Options are Django's (``priority``, ``queue_name``, ``takes_context``) and those of
    :class:`OffpathTask`. Django 6.0 takes no options of a backend in its own decorator, later ones
    do, and then both are the same. Raises ``InvalidTask``, and ``TypeError`` for ``run_after``,
    which is given to a call: ``task.using(run_after=…)``.
    """
    if "run_after" in options:
        raise TypeError("run_after is of one call, not of a task: write task.using(run_after=…)")

    given = _DEFAULTS | options

    def made(func: Callable[..., Any]) -> Any:  # noqa: ANN401 - a Task
        return task_backends[backend].task_class(func=func, backend=backend, **given)

    return made if function is None else made(function)
