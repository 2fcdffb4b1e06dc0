"""Django on a database of the test's own, of each kind."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.contrib.django import site
from tests.servers import migrate
from tests.sqlite_files import migrated_file

site.set_up()

from django.db import connections  # noqa: E402 - Django must be set up before
from django.test import override_settings  # noqa: E402

from offpath.contrib.django import app_of  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def point_to(alias: str, **settings: Any) -> None:
    """Let an alias mean another database from now on."""
    connections[alias].close()
    connections[alias].settings_dict.update(settings)


def server_settings(url: str) -> dict[str, Any]:
    """Django's settings for a server's URL."""
    parts = urlsplit(url)
    return {
        "NAME": parts.path.lstrip("/"),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "USER": parts.username or "",
    }


@pytest.fixture(params=[site.SQLITE, site.POSTGRES])
def alias(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The alias of a database that has our schema and one table of the project's own."""
    name: str = request.param
    if name == site.SQLITE:
        point_to(name, NAME=str(migrated_file(tmp_path / "site.db")))
    else:
        copy: Callable[[str, Callable[[str], None]], str]
        copy = request.getfixturevalue("database_from_template")
        point_to(name, **server_settings(copy("schema", migrate)))
    with connections[name].cursor() as cursor:
        cursor.execute("create table note (text varchar(100))")
    yield name
    connections[name].close()


@pytest.fixture
def empty_alias(alias: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The alias of a database with nothing in it."""
    if alias == site.SQLITE:
        point_to(alias, NAME=str(tmp_path / "empty.db"))
    else:
        point_to(alias, **server_settings(request.getfixturevalue("postgres_url")))
    return alias


def work(alias: str) -> None:
    """Run what is due, in a worker of this process, until nothing is."""

    async def run() -> None:
        app = app_of(alias)
        async with app:
            await app.worker(poll_interval=0.05).run_until_idle()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, run()).result()


@pytest.fixture
def notes(alias: str) -> Callable[[], list[str]]:
    """``notes()``: the texts in the project's own table."""

    def read() -> list[str]:
        with connections[alias].cursor() as cursor:
            cursor.execute("select text from note order by text")
            return [text for (text,) in cursor.fetchall()]

    return read


def with_options(alias: str, **options: Any) -> Any:
    """Settings in which one backend has other options."""
    tasks = site._tasks()
    tasks[alias]["OPTIONS"] |= options
    return override_settings(TASKS=tasks)
