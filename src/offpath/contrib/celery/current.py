"""Celery's ``current_app`` and ``current_task``, and what is made without an app at hand."""

# ruff: noqa: ANN401 - whatever the app or the task has

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from offpath.contrib.celery.app_face import current
from offpath.contrib.celery.running_call import current_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.contrib.celery.canvas import Signature


class CurrentProxy:
    """Something that is looked up whenever it is used."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find

    def __bool__(self) -> bool:
        """True where there is one."""
        return self._find() is not None

    def __getattr__(self, name: str) -> Any:
        """Read an attribute of what it stands for."""
        return getattr(self._find(), name)


def _task() -> Any:
    request = current_request()
    return None if request.called_directly else current().tasks[request.task]


current_app: Final = CurrentProxy(current)
current_task: Final = CurrentProxy(_task)
get_task_logger: Final = logging.getLogger


def signature(name: str, args: Any = (), kwargs: Any = None, **options: Any) -> Signature:
    """A call of a task of the current app by its name, not sent."""
    made: Signature = current().signature(name, args, kwargs, **options)
    return made
