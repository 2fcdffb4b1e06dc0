"""The names of the Tasks API: Django's own from 6.0 on, those of its backport before."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, Final

import django

from offpath.errors import MissingExtra

_OWN: Final = (6, 0)


def _home() -> str:
    if django.VERSION[:2] >= _OWN:
        return "django.tasks"
    try:
        import_module("django_tasks")
    except ImportError as error:
        raise MissingExtra(
            "with Django before 6.0 the Tasks API is a package: pip install django-tasks"
        ) from error
    return "django_tasks"


HOME: Final = _home()


def _module(name: str) -> ModuleType:
    return import_module(f"{HOME}.{name}")


def _either(module: ModuleType, *names: str) -> Any:  # noqa: ANN401 - a class of Django's
    return next(getattr(module, name) for name in names if hasattr(module, name))


BaseTaskBackend: Final[Any] = _module("backends.base").BaseTaskBackend
Task: Final[Any] = _module("base").Task
TaskContext: Final[Any] = _module("base").TaskContext
TaskError: Final[Any] = _module("base").TaskError
TaskResult: Final[Any] = _module("base").TaskResult
TaskResultStatus: Final[Any] = _module("base").TaskResultStatus
TaskResultDoesNotExist: Final[Any] = _module("exceptions").TaskResultDoesNotExist
InvalidTask: Final[Any] = _either(_module("exceptions"), "InvalidTask", "InvalidTaskError")
signals: Final[Any] = _module("signals")
task_backends: Final[Any] = import_module(HOME).task_backends
plain_decorator: Final[Any] = import_module(HOME).task


def normalize_json(value: Any) -> Any:  # noqa: ANN401 - JSON
    """A value as JSON has it: tuples are lists. Raises ``TypeError`` for what JSON has not."""
    place = "django.utils.json" if HOME == "django.tasks" else "django_tasks.utils"
    return import_module(place).normalize_json(value)
