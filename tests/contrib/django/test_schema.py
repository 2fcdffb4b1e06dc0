"""A project whose jobs are in a schema of a name of its own, beside another service's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from offpath.contrib.django import app_of
from offpath.contrib.django.models import TaskJob, jobs_schema, table_name
from offpath.contrib.django.test import empty_tables
from tests.contrib.django import site, tasks
from tests.contrib.django.conftest import with_options, work
from tests.contrib.django.test_admin import forget_columns
from tests.contrib.django.test_migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOP = {"settings": {"schema": "shop"}}


@pytest.fixture
def shop(empty_alias: str) -> Iterator[str]:
    """A database that Django migrated for such a project."""
    with with_options(empty_alias, **SHOP):
        migrate(empty_alias)
        yield empty_alias


def named(alias: str, table: str) -> str:
    return f"shop_{table}" if alias == site.SQLITE else f"shop.{table}"


def count(alias: str, table: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"select count(*) from {table}")
        (found,) = cursor.fetchone()
        return int(found)


def schemas(alias: str) -> set[str]:
    """The beginnings of our tables' names, or the schemas that they are in."""
    text = (
        "select substr(name, 1, length(name) - 10) from sqlite_schema where name like '%_migration'"
        if alias == site.SQLITE
        else "select schemaname from pg_tables where tablename = 'migration'"
    )
    with connections[alias].cursor() as cursor:
        cursor.execute(text)
        return {name for (name,) in cursor.fetchall()}


def test_migrate_makes_that_schema_alone_and_tasks_run_in_it(shop: str) -> None:
    assert schemas(shop) == {"shop"}
    result = tasks.double.using(backend=shop).enqueue(3)
    assert count(shop, named(shop, "job")) == 1
    work(shop)
    result.refresh()
    assert result.return_value == 6
    with app_of(shop).blocking as client:
        assert client.jobs.count() == 1


def test_a_task_goes_with_its_transaction(shop: str) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=shop):
        tasks.double.using(backend=shop).enqueue(3)
        raise ZeroDivisionError
    assert count(shop, named(shop, "job")) == 0


def test_the_admin_looks_at_the_jobs_there(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project: dict[str, Any] = {shop: site._tasks()[shop]}
    project[shop]["OPTIONS"] |= SHOP
    tasks.double.using(backend=shop).enqueue(3)
    with site_of(project):
        assert jobs_schema() == "shop"
        monkeypatch.setattr(TaskJob._meta, "db_table", table_name(shop, jobs_schema()))
        forget_columns()
        assert [one.task for one in TaskJob.objects.using(shop)] != []
    forget_columns()


def site_of(project: dict[str, Any]) -> Any:
    from django.test import override_settings

    return override_settings(TASKS=project)


def test_a_test_empties_the_tables_there_and_no_others(shop: str) -> None:
    with connections[shop].cursor() as cursor:
        cursor.execute("create table shop_cart (text varchar(100))")
        cursor.execute("insert into shop_cart values ('mine')")
    tasks.double.using(backend=shop).enqueue(3)
    empty_tables(shop)
    assert (count(shop, named(shop, "job")), count(shop, "shop_cart")) == (0, 1)
    assert schemas(shop) == {"shop"}
    tasks.double.using(backend=shop).enqueue(3)
    assert count(shop, named(shop, "job")) == 1
