"""A store of each SQL backend with the caller's own table, and an app on it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest

import offpath
from tests.integration.within.callers import MAKE, file_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


@pytest.fixture
def url_of(
    tmp_path: Path, database_from_template: Callable[[str, Callable[[str], None]], str]
) -> Callable[[str], str]:
    """``url_of(dialect)``: a migrated store with the caller's table."""

    def made(dialect: str) -> str:
        if dialect == "postgres":
            return database_from_template("within", build_postgres)
        url = f"sqlite:///{tmp_path / 'app.db'}"
        with sqlite3.connect(file_of(url)) as connection:
            connection.execute(MAKE)
        connection.close()
        return url

    return made


@pytest.fixture
async def make_app() -> AsyncIterator[Callable[[str], offpath.App]]:
    """``make_app(url)``: an app with one task, closed after the test."""
    made: list[offpath.App] = []

    def make(url: str) -> offpath.App:
        app = offpath.App(url, auto_start=False, migrate=True)

        @app.task
        async def double(n: int) -> int:
            return 2 * n

        made.append(app)
        return app

    yield make
    for app in made:
        await app.close()


def build_postgres(url: str) -> None:
    import psycopg

    async def migrate() -> None:
        app = offpath.App(url, auto_start=False)
        await app.migrate()
        await app.close()

    # The fixture may be asked for inside of a running loop.
    migrating = threading.Thread(target=lambda: asyncio.run(migrate()))
    migrating.start()
    migrating.join()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(MAKE)
