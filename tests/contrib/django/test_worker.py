"""Handlers in a worker: connections, threads, the language, a database that goes away."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import psycopg
import pytest
from django.db import OperationalError, connections, transaction
from django.utils import translation

import offpath
from offpath.contrib.django import app_of, fresh_connections
from offpath.contrib.django.connections import MOST_SNOOZES, is_away, snooze
from offpath.contrib.django.table import THREADS
from tests.contrib.django import site, tasks
from tests.contrib.django.conftest import with_options, work
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANY = 60
OWN = offpath.App("sqlite:///unused.db")


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    tasks.SEEN.clear()
    yield
    tasks.SEEN.clear()


def open_connections(alias: str) -> int:
    text = "select count(*) - 1 from pg_stat_activity where datname = current_database()"
    with psycopg.connect(app_of(alias).settings.url) as connection:
        row = connection.execute(text).fetchone()
    assert row is not None
    return int(row[0])


def test_handlers_use_the_orm_and_leave_no_connection_behind(
    alias: str, notes: Callable[[], list[str]]
) -> None:
    for number in range(MANY):
        tasks.note.using(backend=alias).enqueue(alias, f"{number:03}")
    work(alias)
    assert len(notes()) == MANY
    assert len({thread for thread, _ in tasks.SEEN}) <= THREADS
    if alias == site.POSTGRES:
        connections[alias].close()
        # the server's processes end a moment after their connections
        none = eventually(lambda: open_connections(alias) == 0, within=10, what="they close")
        asyncio.run(none)


def test_a_handler_that_fails_rolls_its_rows_back(
    alias: str, notes: Callable[[], list[str]]
) -> None:
    tasks.note.using(backend=alias).enqueue(alias, "a", fail=True)
    work(alias)
    assert notes() == []


def test_the_language_is_set_back_after_each(alias: str) -> None:
    with with_options(alias, settings={"retry": 1, "threads": 1}):
        tasks.note.using(backend=alias).enqueue(alias, "a")
        result = tasks.language.using(backend=alias).enqueue()
        work(alias)
    result.refresh()
    assert result.return_value == "en-us"


def test_inside_of_a_transaction_no_connection_is_closed(alias: str) -> None:
    """The same as in a TestCase, whose rows would be gone."""
    connections[alias].settings_dict["CONN_MAX_AGE"] = 0
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute("insert into note (text) values ('mine')")
        with fresh_connections():
            pass
        cursor.execute("select count(*) from note")
        assert cursor.fetchone() == (1,)


def test_what_sets_a_language_gets_it_back() -> None:
    with translation.override("de"):
        with fresh_connections():
            translation.activate("fr")
        assert translation.get_language() == "de"


def raised(cause: BaseException) -> OperationalError:
    """An error of Django's, as it makes one of a driver's."""
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "away"),
    [
        (psycopg.OperationalError("connection refused"), True),
        (psycopg.errors.AdminShutdown("terminating connection"), True),
        (psycopg.errors.TooManyConnections("sorry"), True),
        (psycopg.errors.DeadlockDetected("deadlock"), False),
        (psycopg.errors.QueryCanceled("statement timeout"), False),
        (sqlite3.OperationalError("database is locked"), False),
    ],
)
def test_a_database_that_is_away_is_told_from_a_query_that_fails(
    cause: BaseException, away: bool
) -> None:
    assert is_away(raised(cause)) is away
    assert not is_away(cause)


def test_a_job_is_put_off_at_most_so_often() -> None:
    assert snooze(MOST_SNOOZES) is not None
    assert snooze(MOST_SNOOZES + 1) is None


def test_a_worker_has_few_threads_unless_it_is_told(alias: str) -> None:
    with with_options(alias):
        assert app_of(alias).settings.threads == THREADS
    with with_options(alias, settings={"threads": 3}):
        assert app_of(alias).settings.threads == 3


def test_an_app_of_the_users_own_has_the_tasks_too(alias: str) -> None:
    with with_options(alias, app="tests.contrib.django.test_worker.OWN"):
        assert app_of(alias) is OWN
        assert tasks.double.module_path in OWN.tasks
