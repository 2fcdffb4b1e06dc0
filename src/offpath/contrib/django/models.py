"""Jobs as a model of Django's, to look at: for the admin, and for queries of a project's own.

It stands on the table itself, and nothing is written through it: ``save`` and ``delete`` raise.
Acting is for the verbs of the app, which keep groups, gates and the audit right.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import connections, models

from offpath.contrib.django.database import alias_of
from offpath.contrib.django.migration import BACKENDS, schema_of
from offpath.store.sql import DEFAULT_SCHEMA

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StoredTime(models.DateTimeField):  # type: ignore[misc] # Django ships no types
    """A time as our tables have it: on SQLite the microseconds since 1970."""

    def get_internal_type(self) -> str:
        """A kind that no database of Django's converts: it would want a text on SQLite."""
        return "StoredTime"

    def from_db_value(self, value: Any, _expression: Any, _connection: Any) -> datetime | None:  # noqa: ANN401 - Django's
        """A time as Django shows it."""
        return _EPOCH + timedelta(microseconds=value) if isinstance(value, int) else value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:  # noqa: ANN401, FBT002 - Django's
        """A time as our tables have it."""
        if connection.vendor == "sqlite" and isinstance(value, datetime):
            return (value - _EPOCH) // timedelta(microseconds=1)
        return super().get_db_prep_value(value, connection, prepared)


class JobId(models.CharField):  # type: ignore[misc] # as above
    """An id: a UUID in Postgres, a text in SQLite, and always a text here."""

    def from_db_value(self, value: Any, _expression: Any, _connection: Any) -> str | None:  # noqa: ANN401 - Django's
        """The id as text."""
        return None if value is None else str(value)


class JobQuery(models.QuerySet):  # type: ignore[misc] # as above
    """Jobs in the database of their backend; nothing can be written through it."""

    def update(self, **_: Any) -> int:  # noqa: ANN401 - Django's
        """Refuse."""
        raise NotImplementedError(_REFUSED)

    def delete(self) -> tuple[int, dict[str, int]]:
        """Refuse."""
        raise NotImplementedError(_REFUSED)


_REFUSED: Final = "jobs are changed by the app's verbs: app_of().blocking.dead.redrive(…)"


class TaskJob(models.Model):  # type: ignore[misc] # as above
    """A job, as its row is."""

    id = JobId(primary_key=True, max_length=36)
    task = models.CharField(max_length=1000)
    queue = models.CharField(max_length=1000)
    state = models.CharField(max_length=20)
    priority = models.IntegerField()
    attempt = models.BigIntegerField()
    enqueued_at = StoredTime()
    run_at = StoredTime("due")
    started_at = StoredTime(null=True)
    finished_at = StoredTime(null=True)
    reason = models.CharField(max_length=1000, null=True)  # noqa: DJ001 - the column has nulls
    worker = models.CharField(max_length=1000, null=True)  # noqa: DJ001 - as above

    objects = JobQuery.as_manager()

    class Meta:
        """A table of ours: Django makes and changes none."""

        managed = False
        app_label = "offpath"
        verbose_name = "job"
        ordering: Sequence[str] = ("-id",)
        default_permissions = ("view",)
        permissions = (
            ("act_job", "Can redrive, cancel and discard jobs"),
            ("view_dashboard", "Can see the dashboard"),
            ("view_payload", "Can see arguments, results and errors of jobs"),
        )

    def __str__(self) -> str:
        """Show the task and the id."""
        return f"{self.task} {self.id}"

    def save(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - Django's
        """Refuse."""
        raise NotImplementedError(_REFUSED)

    def delete(self, *_: Any, **__: Any) -> tuple[int, dict[str, int]]:  # noqa: ANN401 - Django's
        """Refuse."""
        raise NotImplementedError(_REFUSED)

    @property
    def shown_state(self) -> str:
        """The state in the words of offpath: what is scheduled and what is ready are queued."""
        return "queued" if self.state in QUEUED else str(self.state)


QUEUED: Final = ("scheduled", "ready")
"""The two inner states of a queued job."""


def jobs_backend() -> str | None:
    """The first backend of ours whose jobs are in a database of Django's; None without one."""
    for name, one in getattr(settings, "TASKS", {}).items():
        if one.get("BACKEND") in BACKENDS and "url" not in (one.get("OPTIONS") or {}):
            return str(name)
    return None


def jobs_alias() -> str | None:
    """The alias of that database."""
    name = jobs_backend()
    return None if name is None else alias_of(settings.TASKS[name].get("OPTIONS") or {})


def jobs_schema() -> str:
    """The schema of that database in which they are."""
    name = jobs_backend()
    return DEFAULT_SCHEMA if name is None else schema_of(settings.TASKS[name].get("OPTIONS") or {})


def table_name(alias: str | None, schema: str = DEFAULT_SCHEMA) -> str:
    """The table of jobs in a schema of the database of an alias."""
    known = alias is not None and alias in connections.databases
    if known and connections[alias].vendor == "sqlite":
        return f"{schema}_job"
    # a quoted name with its schema: Django puts the quotes around it
    return f'{schema}"."job'


# only the project's settings, which are read here, tell where the jobs are
TaskJob._meta.db_table = table_name(jobs_alias(), jobs_schema())  # noqa: SLF001 - Django's own way
