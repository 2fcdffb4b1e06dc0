"""Celery's exceptions that a task or a caller may meet here, and the refusal of what is absent."""

from __future__ import annotations

import builtins

from offpath.contrib.celery import catalogue
from offpath.contrib.celery.catalogue import Counterpart, Meaning
from offpath.errors import InvalidArgument


class NotInShim(InvalidArgument):
    """A word of Celery's that has no counterpart in the shim: the text says what to do instead."""

    code = "not_in_shim"


class CeleryError(Exception):
    """The root of Celery's own exceptions."""


class TaskPredicate(CeleryError):
    """Raised in a task to say how it ends."""


class Retry(TaskPredicate):
    """The task is to be run again; ``self.retry`` raises it."""

    def __init__(
        self,
        message: str | None = None,
        exc: BaseException | None = None,
        *,
        delay: float = 0.0,
        runs: int | None = None,
    ) -> None:
        super().__init__(message or "the task is to be run again")
        self.exc = exc
        self.delay = delay
        """Seconds until then."""
        self.runs = runs
        """The number of runs that are allowed so far."""


class MaxRetriesExceededError(CeleryError):
    """The task was run as often as ``max_retries`` allows."""


class TimeoutError(CeleryError, builtins.TimeoutError):  # noqa: A001 - Celery's name
    """The result did not come in time."""


class TaskRevokedError(CeleryError):
    """The task was cancelled, or was to be started after it had expired."""


class SoftTimeLimitExceeded(Exception):
    """An async task has run for its ``soft_time_limit``: raised in it, so that it may clean up."""


class TimeLimitExceeded(CeleryError):
    """The task ran longer than its ``time_limit``."""


def refuse(found: Counterpart | None, word: str) -> None:
    """Raise ``NotInShim`` for a word that the shim has not."""
    if found is None:
        raise NotInShim(f"{word}: nothing here is like it; docs/integrations/celery.md says more")
    if found.meaning is Meaning.ABSENT:
        raise NotInShim(f"{word}: {found.text}")


def __getattr__(name: str) -> object:
    """Refuse an exception of Celery's that is not here, by the word that is."""
    if name in catalogue.IMPORTS:
        raise ImportError(f"{name}: {catalogue.IMPORTS[name].text}", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
