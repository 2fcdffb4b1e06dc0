"""Postgres stores on a fresh database, and a look behind their backs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from offpath.model.job import NewJob
from offpath.store.postgres import PostgresStore
from tests.servers import migrate, with_database

Ask = Callable[..., list[tuple[Any, ...]]]
Opened = Callable[..., Awaitable[PostgresStore]]

ALL_SET = NewJob(
    id="",
    task="t",
    input="",
    fingerprint="f",
    queue="q",
    priority=-7,
    options='{"retry":5}',
    parent="0190c1f4-0000-7000-8000-000000000001",
    announce=3,
    fair_key="k",
    headers='{"h":"1"}',
)
"""A plain job with every column that such a job can have, but for its id and input."""


@pytest.fixture
def url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    """A database with the schema and no rows."""
    return database_from_template("schema", migrate)


@pytest.fixture
def english(url: str) -> Iterator[str]:
    """A database whose texts are ordered as in English, by a version that the server knows."""
    name = f"offpath_english_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"drop database if exists {name}".encode())
        owner.execute(
            f"create database {name} template template0 encoding 'UTF8' locale_provider icu"
            " icu_locale 'en' locale 'C.UTF-8'".encode()
        )
        yield with_database(url, name)
        owner.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Opened]:
    """Opens stores on the database; they are closed after the test."""
    made: list[PostgresStore] = []

    async def open_one(address: str = url, **options: Any) -> PostgresStore:
        made.append(PostgresStore(address, **options))
        await made[-1].open()
        return made[-1]

    yield open_one
    for store in made:
        await store.close()


@pytest.fixture
def ask(url: str) -> Ask:
    """Runs a statement on a connection of the test's own."""

    def run(statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    return run


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what only the server can tell, and only when asked."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - the server sets no event of ours
            await asyncio.sleep(0.01)
