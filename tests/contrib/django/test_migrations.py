"""Our schema by ``manage.py migrate``, mixed with ``offpath migrate`` in any order."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.db.migrations.exceptions import IrreversibleError
from django.test import override_settings

from offpath.contrib.django import app_of, migrations
from offpath.contrib.django.migration import SchemaSteps
from offpath.contrib.schema_steps import known_steps
from tests.contrib.django import site, tasks
from tests.contrib.django.conftest import with_options, work

if TYPE_CHECKING:
    from offpath.store.within import Dialect


def dialect_of(alias: str) -> Dialect:
    return "sqlite" if alias == site.SQLITE else "postgres"


def applied(alias: str) -> list[int]:
    table = "offpath_migration" if alias == site.SQLITE else "offpath.migration"
    with connections[alias].cursor() as cursor:
        cursor.execute(f"select number from {table} order by number")
        return [number for (number,) in cursor.fetchall()]


def every(alias: str) -> list[int]:
    return [step.number for step in known_steps(dialect_of(alias))]


class Apart:
    """A router that leaves django-tasks-db out: one of its steps changes rows of the default
    database, whichever is migrated.
    """

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        del db
        return False if app_label == "django_tasks_database" else None


def migrate(alias: str, *arguments: str) -> None:
    with override_settings(DATABASE_ROUTERS=settings.DATABASE_ROUTERS or [Apart()]):
        call_command("migrate", *arguments, database=alias, verbosity=0)


def our_own(alias: str) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, app_of(alias).migrate()).result()


def test_migrate_makes_the_schema_and_tasks_run(empty_alias: str) -> None:
    migrate(empty_alias)
    assert applied(empty_alias) == every(empty_alias)
    result = tasks.double.using(backend=empty_alias).enqueue(3)
    work(empty_alias)
    result.refresh()
    assert result.return_value == 6


@pytest.mark.parametrize("first", ["django", "ours"])
def test_either_comes_first(empty_alias: str, first: str) -> None:
    for each in (migrate, our_own) if first == "django" else (our_own, migrate):
        each(empty_alias)
    assert applied(empty_alias) == every(empty_alias)


def test_another_database_is_left_alone(empty_alias: str) -> None:
    with with_options(empty_alias, database="elsewhere"):
        migrate(empty_alias)
    assert not [one for one in tables(empty_alias) if one.startswith("offpath")]


class Refusing(Apart):
    """A router of the project's that keeps us away."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == "offpath" else super().allow_migrate(db, app_label, **hints)


def test_a_router_that_says_no_is_heeded(empty_alias: str) -> None:
    with override_settings(DATABASE_ROUTERS=["tests.contrib.django.test_migrations.Refusing"]):
        migrate(empty_alias)
    assert not [one for one in tables(empty_alias) if one.startswith("offpath")]


def tables(alias: str) -> list[str]:
    text = (
        "select name from sqlite_schema"
        if alias == site.SQLITE
        else "select nspname from pg_namespace"
    )
    with connections[alias].cursor() as cursor:
        cursor.execute(text)
        return [name for (name,) in cursor.fetchall()]


def test_there_is_no_way_back(alias: str) -> None:
    migrate(alias)
    with pytest.raises(IrreversibleError):
        migrate(alias, "offpath", "zero")


def test_django_finds_nothing_to_make(alias: str) -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0, stdout=StringIO())


def test_the_migrations_have_every_step() -> None:
    """Whoever adds a step after a release adds a migration for it."""
    folder = Path(migrations.__file__ or "").parent
    names = sorted(one.stem for one in folder.glob("0*.py"))
    made = [import_module(f"{migrations.__name__}.{name}").Migration for name in names]
    *_, operation = (
        one for each in made for one in each.operations if isinstance(one, SchemaSteps)
    )
    assert operation.postgres in {None, len(known_steps("postgres"))}
    assert operation.sqlite in {None, len(known_steps("sqlite"))}
    assert "on SQLite" in operation.describe()
