"""Waiting tasks of a real django-tasks-db become ours, under the ids that they had."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from django.utils import timezone

from offpath.contrib.django import app_of
from offpath.contrib.django.names import task_backends
from offpath.contrib.imports import DjangoTasks, ImportReport, import_jobs, open_tables
from tests.contrib.django import site, tasks
from tests.contrib.django.conftest import work

if TYPE_CHECKING:
    from collections.abc import Iterator

THEIRS = "theirs"


class Router:
    """Sends the tables of django-tasks-db to one alias."""

    alias = ""

    def db_for_read(self, model: Any, **_: object) -> str | None:
        return self.alias if model._meta.app_label == "django_tasks_database" else None

    db_for_write = db_for_read


@pytest.fixture
def theirs(alias: str) -> Iterator[Any]:
    """Their model; its tables are those of their migrations, in the database of the alias."""
    from django_tasks_db.models import DBTaskResult

    Router.alias = alias
    backend = {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": ["default", "mail"]}
    given = {**site._tasks(), THEIRS: backend}
    with override_settings(TASKS=given, DATABASE_ROUTERS=[Router()]):
        for one in (tasks.describe, tasks.double):
            one.using(backend=alias)  # as if they were defined on our backend of this alias
        call_command("migrate", "django_tasks_database", database=alias, verbosity=0)
        yield DBTaskResult.objects


def moved(alias: str, *, dry_run: bool = False) -> ImportReport:
    """The report of an import."""

    async def run() -> ImportReport:
        app = app_of(alias)
        async with app:
            with open_tables(app) as tables:
                return await import_jobs(app, DjangoTasks(), tables, dry_run=dry_run)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()


def test_tasks_move_with_their_ids_and_what_they_had(alias: str, theirs: Any) -> None:
    enqueue = tasks.describe.using(backend=THEIRS).enqueue
    ids = [enqueue(number, name="a").id for number in range(2)]
    later = tasks.describe.using(backend=THEIRS, run_after=timezone.now() + timedelta(hours=1))
    ids.append(later.enqueue().id)
    name = tasks.describe.module_path
    assert moved(alias, dry_run=True).moved == {name: 3}
    assert theirs.count() == 3
    report = moved(alias)
    assert (report.moved, report.left, theirs.count()) == ({name: 3}, [], 0)
    assert moved(alias).moved == {}
    backend = task_backends[alias]
    first = backend.get_result(ids[0])
    assert (first.args, first.kwargs, first.task.priority) == ([0], {"name": "a"}, 3)
    assert first.task.queue_name == "mail"
    work(alias)
    found = [backend.get_result(one).status.value for one in ids]
    assert found == ["SUCCESSFUL", "SUCCESSFUL", "READY"]
    assert backend.get_result(ids[1]).return_value == {"args": [1], "kwargs": {"name": "a"}}


def test_what_runs_there_or_is_not_here_stays(alias: str, theirs: Any) -> None:
    for _ in range(3):
        tasks.double.using(backend=THEIRS).enqueue(1)
    one, other, _ = theirs.order_by("id")
    theirs.filter(pk=one.pk).update(status="RUNNING")
    theirs.filter(pk=other.pk).update(task_path="gone.tasks.work")
    report = moved(alias)
    assert (report.moved, report.running) == ({tasks.double.module_path: 1}, 1)
    assert [(one.name, one.example) for one in report.left] == [
        ("gone.tasks.work", str(other.pk) if alias == site.POSTGRES else other.pk.hex)
    ]
    assert theirs.count() == 2
    connections[alias].close()
