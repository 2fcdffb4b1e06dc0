"""The backend: what Django's ``task.enqueue`` and ``get_result`` do here."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, Final

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils import timezone

from offpath.contrib.django import names
from offpath.contrib.django.checks import messages
from offpath.contrib.django.handler import known_run, native
from offpath.contrib.django.installed import require_installed
from offpath.contrib.django.results import ready, result_of
from offpath.contrib.django.table import table_of
from offpath.errors import InvalidArgument, JobNotFound
from offpath.model.limit_options import Limit
from offpath.model.options import Unique
from offpath.model.retry import RetryOptions
from offpath.runtime.ids import parse_id

if TYPE_CHECKING:
    from offpath.app import App
    from offpath.jobs.values.job import Job

_log: Final = logging.getLogger("offpath.contrib.django")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OffpathTask(names.Task):  # type: ignore[misc] # Django ships no types
    """A task of Django's that may have options of ours."""

    retry: RetryOptions | int | None = None
    """The policy of its retries; an int is the number of attempts (3 unless given)."""
    timeout: float | timedelta | None = None
    """The longest that one attempt may take."""
    deadline: timedelta | float | None = None
    """The time within which the whole job must have ended, counted from enqueue."""
    tags: Sequence[str] | None = None
    retention: float | timedelta | None = None
    """The time that a succeeded job and its result are kept."""
    limit: Limit | None = None
    """The number of jobs of a key that run at once in the fleet."""
    fair_key: str | None = None
    """The owner of the job, where queues are served in turn."""
    unique: Callable[..., Unique | str | None] | Unique | str | None = None
    """A key that one job of the task has at a time, or a function of the task's arguments that
    gives one. A repeat is not written: its result is that of the job that is there.
    """


class OffpathBackend(names.BaseTaskBackend):  # type: ignore[misc] # Django ships no types
    """Tasks as jobs of offpath, in the transaction of the caller's connection."""

    task_class = OffpathTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._table = table_of(alias)
        self._table.options = self.options
        self._table.native, self._table.around = native, known_run
        self._table.sender = OffpathBackend

    def validate_task(self, task: Any) -> None:  # noqa: ANN401 - a Task
        """Check a task, and let workers know it: Django calls this where one is defined.

        Raises ``InvalidTask``, and ``ImproperlyConfigured`` where our app is not installed.
        """
        require_installed(f'TASKS["{self.alias}"]')
        super().validate_task(task)
        self._table.add(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - a TaskResult
        """Write a job of a task; returns its result, which has its id.

        Raises ``InvalidTask``, ``TypeError`` for arguments that the task does not take or that are
        no JSON, and what ``app.enqueue`` does.
        """
        self.validate_task(task)
        _require_fitting(task, args, kwargs)
        app = self._table.app()
        result = ready(task, app.new_id(), *_as_json(args, kwargs))
        sending = app.tasks[task.module_path].options(
            id=result.id,
            priority=task.priority,
            queue=task.queue_name,
            run_at=_aware(task.run_after),
        )
        made = result.id
        self._write(sending.job(*result.args, **result.kwargs), result)
        return result if result.id == made else self.get_result(result.id)

    def _write(self, job: Job[Any, Any], result: Any) -> None:  # noqa: ANN401 - a TaskResult
        write = partial(self._write_now, job, result)
        if self._table.mode == "on_commit":
            transaction.on_commit(write, using=self._table.database)
        else:
            write()

    def _write_now(self, job: Job[Any, Any], result: Any) -> None:  # noqa: ANN401 - a TaskResult
        blocking = self._table.app().blocking
        if self._table.own_database and self._table.mode == "transaction":
            self._say_of_another_transaction()
            handle = blocking.enqueue(job, within=connections[self._table.database])
        else:
            handle = blocking.enqueue(job)
        if not handle.created:  # a job with its unique key is there already
            object.__setattr__(result, "id", handle.id)
            return
        object.__setattr__(result, "enqueued_at", timezone.now())
        names.signals.task_enqueued.send(type(self), task_result=result)

    def _say_of_another_transaction(self) -> None:
        mine = self._table.database
        if connections[mine].in_atomic_block:
            return
        open_ones = [
            one.alias for one in connections.all(initialized_only=True) if one.in_atomic_block
        ]
        if open_ones:
            frame = sys._getframe(5)  # noqa: SLF001 - who called task.enqueue
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            if place not in _TOLD:
                _TOLD.add(place)
                _log.warning(
                    "%s: the job is written at once in %r, the transaction is open on %s",
                    place, mine, ", ".join(map(repr, open_ones)),
                )  # fmt: skip

    def get_result(self, result_id: str) -> Any:  # noqa: ANN401 - a TaskResult
        """The result of a job. Raises ``TaskResultDoesNotExist``, also for a native job.

        It is read on Django's connection, so a job of the open transaction is found.
        """
        try:
            job = parse_id(result_id, "a result's id")
        except InvalidArgument:
            raise names.TaskResultDoesNotExist(result_id) from None
        record = self._read(job)
        task = None if record is None else self._table.tasks.get(record.task)
        if record is None or task is None:
            raise names.TaskResultDoesNotExist(result_id)
        return result_of(task, record)

    def _read(self, job: str) -> Any:  # noqa: ANN401 - a JobRecord or None
        blocking = self._table.app().blocking
        try:
            if self._table.own_database:
                return blocking.bound(connections[self._table.database]).get(job)
            return blocking.jobs.get(job)
        except JobNotFound:
            return None

    def check(self, **_: object) -> Iterable[Any]:
        """The messages of ``manage.py check`` about this backend."""
        return messages(self.alias, self._table, self.queues)


def app_of(alias: str = "default") -> App:
    """The app of a backend of ``TASKS``: to list jobs, to wait, to define schedules.

    Raises ``ImproperlyConfigured`` when that backend is not ours, and ``ConfigurationError``.
    """
    if not isinstance(names.task_backends[alias], OffpathBackend):
        raise ImproperlyConfigured(f"TASKS[{alias!r}] is not offpath.contrib.django.OffpathBackend")
    return table_of(alias).app()


_TOLD: Final[set[str]] = set()
"""The places that were warned about already."""


def _require_fitting(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:  # noqa: ANN401 - a Task
    """Raise the ``TypeError`` of the call that a worker would make, with the task's parameters."""
    takes = _signature(task.func)
    context = (None,) if task.takes_context else ()
    try:
        takes.bind(*context, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.module_path}{takes}: {error}") from None


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> Signature:
    return signature(function)


def _as_json(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    named = [(f"argument {at}", one) for at, one in enumerate(args, 1)]
    for name, one in (*named, *kwargs.items()):
        try:
            names.normalize_json(one)
        except TypeError as error:
            kind = type(one).__name__
            raise TypeError(
                f"{name} is of type {kind}, which JSON has not: give its id or its text ({error})"
            ) from error
    return list(args), kwargs


def _aware(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return (moment if timezone.is_aware(moment) else timezone.make_aware(moment)).astimezone(UTC)
