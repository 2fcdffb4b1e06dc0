"""A caller's transaction in every library that offpath joins, driven alike by the tests.

Each kind opens a transaction, writes one row of its own, lets the test enqueue over its connection,
and ends as it is told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INSERT = "insert into caller_row (id) values ({})"
MAKE = "create table caller_row (id integer primary key)"

Opened = Callable[[str], AbstractAsyncContextManager[tuple[Any, "End"]]]


@dataclass
class End:
    """The caller's end of its transaction."""

    commit: bool = True


@dataclass(frozen=True)
class Caller:
    """One kind: ``open(url)`` gives what goes into ``within=``, inside a transaction that has
    written a row (or nothing yet, with ``first=True``)."""

    name: str
    dialect: str
    blocking: bool
    open: Callable[[str, bool], AbstractAsyncContextManager[tuple[Any, End]]]


def file_of(url: str) -> Path:
    """The file of a SQLite URL."""
    return Path(url.removeprefix("sqlite:///"))


def sqlalchemy_url(url: str, driver: str) -> str:
    """The URL as SQLAlchemy writes it."""
    scheme, rest = url.split("://", 1)
    return f"{scheme}+{driver}://{rest}"


@asynccontextmanager
async def psycopg_sync(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
    import psycopg
    from psycopg.rows import dict_row

    connection = psycopg.connect(url, row_factory=dict_row)
    try:
        if not first:
            connection.execute(INSERT.format(1))
        yield connection, (end := End())
        connection.commit() if end.commit else connection.rollback()
    finally:
        connection.close()


@asynccontextmanager
async def psycopg_async(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
    import psycopg
    from psycopg.rows import dict_row

    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        if not first:
            await connection.execute(INSERT.format(1))
        yield connection, (end := End())
        await (connection.commit() if end.commit else connection.rollback())


@asynccontextmanager
async def asyncpg_plain(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        if not first:
            await connection.execute(INSERT.format(1))
        yield connection, (end := End())
        await (transaction.commit() if end.commit else transaction.rollback())
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
    import asyncpg

    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as one:
        transaction = one.transaction()
        await transaction.start()
        if not first:
            await one.execute(INSERT.format(1))
        yield one, (end := End())
        await (transaction.commit() if end.commit else transaction.rollback())


def alchemy_connection(driver: str) -> Any:
    @asynccontextmanager
    async def opened(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
        import sqlalchemy as sa

        engine = sa.create_engine(sqlalchemy_url(url, driver))
        with engine.connect() as connection:
            if not first:
                connection.execute(sa.text(INSERT.format(1)))
            yield connection, (end := End())
            connection.commit() if end.commit else connection.rollback()
        engine.dispose()

    return opened


def alchemy_session(driver: str, *, scoped: bool = False) -> Any:
    @asynccontextmanager
    async def opened(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
        import sqlalchemy as sa
        from sqlalchemy import orm

        engine = sa.create_engine(sqlalchemy_url(url, driver))
        session = orm.scoped_session(orm.sessionmaker(engine)) if scoped else orm.Session(engine)
        if not first:
            session.execute(sa.text(INSERT.format(1)))
        yield session, (end := End())
        session.commit() if end.commit else session.rollback()
        session.close()
        engine.dispose()

    return opened


def alchemy_async_connection(driver: str) -> Any:
    @asynccontextmanager
    async def opened(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
        import sqlalchemy as sa
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(sqlalchemy_url(url, driver))
        async with engine.connect() as connection:
            if not first:
                await connection.execute(sa.text(INSERT.format(1)))
            yield connection, (end := End())
            await (connection.commit() if end.commit else connection.rollback())
        await engine.dispose()

    return opened


def alchemy_async_session(driver: str) -> Any:
    @asynccontextmanager
    async def opened(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
        import sqlalchemy as sa
        from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

        engine = create_async_engine(sqlalchemy_url(url, driver))
        async with AsyncSession(engine) as session:
            if not first:
                await session.execute(sa.text(INSERT.format(1)))
            yield session, (end := End())
            await (session.commit() if end.commit else session.rollback())
        await engine.dispose()

    return opened


@asynccontextmanager
async def sqlite_plain(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
    connection = sqlite3.connect(file_of(url))
    connection.row_factory = sqlite3.Row
    try:
        if not first:
            connection.execute(INSERT.format(1))
        yield connection, (end := End())
        connection.commit() if end.commit else connection.rollback()
    finally:
        connection.close()


@asynccontextmanager
async def aiosqlite_plain(url: str, first: bool) -> AsyncIterator[tuple[Any, End]]:
    import aiosqlite

    async with aiosqlite.connect(file_of(url)) as connection:
        connection.row_factory = aiosqlite.Row
        if not first:
            await connection.execute(INSERT.format(1))
        yield connection, (end := End())
        await (connection.commit() if end.commit else connection.rollback())


CALLERS = (
    Caller("psycopg", "postgres", True, psycopg_sync),
    Caller("psycopg-async", "postgres", False, psycopg_async),
    Caller("asyncpg", "postgres", False, asyncpg_plain),
    Caller("asyncpg-pool", "postgres", False, asyncpg_pooled),
    Caller("sqlalchemy-connection-psycopg", "postgres", True, alchemy_connection("psycopg")),
    Caller("sqlalchemy-session-psycopg", "postgres", True, alchemy_session("psycopg")),
    Caller("sqlalchemy-scoped-psycopg", "postgres", True, alchemy_session("psycopg", scoped=True)),
    Caller(
        "sqlalchemy-async-connection-psycopg",
        "postgres",
        False,
        alchemy_async_connection("psycopg"),
    ),
    Caller("sqlalchemy-async-session-psycopg", "postgres", False, alchemy_async_session("psycopg")),
    Caller(
        "sqlalchemy-async-connection-asyncpg",
        "postgres",
        False,
        alchemy_async_connection("asyncpg"),
    ),
    Caller("sqlalchemy-async-session-asyncpg", "postgres", False, alchemy_async_session("asyncpg")),
    Caller("sqlite3", "sqlite", True, sqlite_plain),
    Caller("aiosqlite", "sqlite", False, aiosqlite_plain),
    Caller("sqlalchemy-connection-sqlite", "sqlite", True, alchemy_connection("pysqlite")),
    Caller("sqlalchemy-session-sqlite", "sqlite", True, alchemy_session("pysqlite")),
    Caller(
        "sqlalchemy-async-connection-sqlite", "sqlite", False, alchemy_async_connection("aiosqlite")
    ),
    Caller("sqlalchemy-async-session-sqlite", "sqlite", False, alchemy_async_session("aiosqlite")),
)
