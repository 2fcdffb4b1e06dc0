"""The messages of ``manage.py check`` about a backend, and about the schema with ``--database``."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import connections

from offpath.contrib.django.database import MODES, OPTIONS, dialect_of
from offpath.contrib.django.installed import APP, not_installed
from offpath.contrib.schema_steps import known_steps
from offpath.errors import ConfigurationError, OffpathError
from offpath.model.checks import like
from offpath.model.served import OTHERS, by_queue

if TYPE_CHECKING:
    from offpath.contrib.django.table import TaskTable


def messages(
    alias: str, table: TaskTable, queues: Collection[str]
) -> Iterator[checks.CheckMessage]:
    """The faults of one backend of ``TASKS``, told without a look at a database.

    ``queues`` are those of Django's setting; empty where a task may have any.
    """
    place = f'TASKS["{alias}"]'
    found = [*_of_names(place, table), *_of_mode(place, table)]
    yield from found
    if not any(one.is_serious() for one in found):
        yield from _of_app(place, table)
    yield from _of_queues(place, table, queues)
    yield from _of_async_tasks(place, table)


def _of_names(place: str, table: TaskTable) -> Iterator[checks.CheckMessage]:
    if not apps.is_installed(APP):
        yield checks.Error(not_installed(place), id="offpath.E007")
    for name in sorted(set(table.options) - set(OPTIONS)):
        yield checks.Error(
            f"{place}: OPTIONS has no {name!r}; {like(name, OPTIONS)}", id="offpath.E005"
        )
    for name in table.options.get("imports", ()):
        if not _is_there(name):
            yield checks.Error(
                f'{place}: OPTIONS["imports"]: there is no module {name!r}', id="offpath.E006"
            )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # of a package that is not there
        return False


def _of_mode(place: str, table: TaskTable) -> Iterator[checks.CheckMessage]:
    if table.mode not in MODES:
        yield checks.Error(
            f'{place}: OPTIONS["enqueue"] is one of {", ".join(MODES)}', id="offpath.E004"
        )
    if table.own_database:
        yield from _of_database(place, table)
    elif table.mode == "transaction":
        yield checks.Error(
            f"{place}: jobs at a url of their own cannot share a transaction of Django's",
            hint='Set OPTIONS["enqueue"] to "on_commit" or "now", or name a database.',
            id="offpath.E002",
        )
    if table.mode == "on_commit":
        yield checks.Warning(
            f"{place}: a process that dies after its commit loses the job",
            hint="With the jobs in the same database as your rows, nothing is lost.",
            id="offpath.W002",
        )


def _of_app(place: str, table: TaskTable) -> Iterator[checks.CheckMessage]:
    """Tell of settings that the app does not take, as a worker would when it starts."""
    try:
        table.app()
    except (OffpathError, ImportError) as error:
        yield checks.Error(f"{place}: {error}", id="offpath.E006")


def _of_queues(
    place: str, table: TaskTable, queues: Collection[str]
) -> Iterator[checks.CheckMessage]:
    """Tell of a queue that tasks may have, and that the project's workers are told not to serve.

    A worker that the environment or an option gives other queues is one of several, and not asked.
    """
    given = (table.options.get("settings") or {}).get("queues")
    served = by_queue(given) if given else None
    if not isinstance(served, Mapping) or OTHERS in served:
        return
    used = {*queues, *(task.queue_name for task in table.tasks.values())}
    for name in sorted(used - served.keys()):
        yield checks.Error(
            f"{place}: no worker serves the queue {name!r}",
            hint='Add it to "queues" in OPTIONS["settings"], or take it out of QUEUES.',
            id="offpath.E003",
        )


def _of_database(place: str, table: TaskTable) -> Iterator[checks.CheckMessage]:
    alias = table.database
    if alias not in connections.databases:
        yield checks.Error(f"{place}: DATABASES has no {alias!r}", id="offpath.E001")
        return
    try:
        dialect = dialect_of(alias)
    except ConfigurationError as error:
        yield checks.Error(f"{place}: {error}", id="offpath.E001")
        return
    options = connections[alias].settings_dict.get("OPTIONS") or {}
    if dialect == "sqlite" and options.get("transaction_mode") != "IMMEDIATE":
        yield checks.Warning(
            f"{place}: a transaction of SQLite that has read cannot always write afterwards",
            hint=f'Set "transaction_mode": "IMMEDIATE" in OPTIONS of DATABASES["{alias}"].',
            id="offpath.W003",
        )


def _of_async_tasks(place: str, table: TaskTable) -> Iterator[checks.CheckMessage]:
    kept = table.own_database and table.database in connections.databases
    age = connections[table.database].settings_dict.get("CONN_MAX_AGE") if kept else 0
    if age != 0 and any(iscoroutinefunction(one.func) for one in table.tasks.values()):
        yield checks.Warning(
            f"{place}: async tasks share one thread for the ORM, whose connection is kept",
            hint="Set CONN_MAX_AGE to 0, and use a pool where connecting is slow.",
            id="offpath.W004",
        )


def worker_messages() -> Iterator[checks.CheckMessage]:
    """The faults of a process that is to be a worker."""
    if settings.DEBUG:
        yield checks.Warning(
            "DEBUG is on in a worker: errors show more than they should",
            hint="Set DEBUG to False where the worker runs.",
            id="offpath.W005",
        )


def check_schema(
    app_configs: Any = None,  # noqa: ANN401, ARG001 - Django's
    databases: Sequence[str] | None = None,
    **_: object,
) -> list[checks.CheckMessage]:
    """Compare the steps that each of our databases has with those of this version.

    Not in `manage.py migrate`, which checks first and runs the steps then.
    """
    if sys.argv[1:2] == ["migrate"]:
        return []
    return [one for alias in databases or () for one in _of_schema(alias)]


def _of_schema(alias: str) -> Iterator[checks.CheckMessage]:
    from offpath.contrib.django.migration import schemas_of

    for schema in schemas_of(alias):
        yield from _of_one(alias, schema)


def _of_one(alias: str, schema: str) -> Iterator[checks.CheckMessage]:
    dialect = dialect_of(alias)
    table = f"{schema}_migration" if dialect == "sqlite" else f"{schema}.migration"
    with connections[alias].cursor() as cursor:
        try:
            cursor.execute(f"select count(*) from {table}")  # noqa: S608 - a checked name
            count = cursor.fetchone()[0]
        except Exception:  # noqa: BLE001 - whatever the driver raises where there is no table
            count = 0
    if count < len(known_steps(dialect)):
        yield checks.Warning(
            f"the database {alias!r} has {count} of {len(known_steps(dialect))} schema steps",
            hint="Run `manage.py migrate` or `manage.py offpath migrate`.",
            id="offpath.W001",
        )
