"""One small class per kind of connection: its database, its transaction, one query."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Final, Protocol

from offpath.errors import WrongConnection
from offpath.store.sql import Query, Row


class Joined(Protocol):
    """A caller's blocking connection."""

    def dialect(self) -> str:
        """The database behind it, in our words or the library's."""
        ...

    def atomic(self) -> AbstractContextManager[None]:
        """Make what follows one transaction, unless one is open already."""
        ...

    def fetch(self, query: Query) -> Sequence[Row]:
        """Run one query, return all rows."""
        ...


class AsyncJoined(Protocol):
    """A caller's async connection."""

    async def dialect(self) -> str:
        """The database behind it, in our words or the library's."""
        ...

    def atomic(self) -> AbstractAsyncContextManager[None]:
        """Make what follows one transaction, unless one is open already."""
        ...

    async def fetch(self, query: Query) -> Sequence[Row]:
        """Run one query, return all rows."""
        ...


# -- psycopg ---------------------------------------------------------------------------------


class _Psycopg:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401
        self._connection = connection

    def dialect(self) -> str:
        return "postgres"

    @contextmanager
    def atomic(self) -> Iterator[None]:
        if _psycopg_autocommits(self._connection):
            with self._connection.transaction():
                yield
        else:
            yield

    def fetch(self, query: Query) -> Sequence[Row]:
        import psycopg
        from psycopg.rows import tuple_row

        # Not connection.cursor(): the caller's factories may make other rows than tuples.
        with psycopg.Cursor(self._connection, row_factory=tuple_row) as cursor:
            # The session is the caller's, maybe behind a pooler: nothing is to stay prepared in it.
            cursor.execute(query.statement.pyformat, query.params, prepare=False)
            return cursor.fetchall() if cursor.description else ()


class _AsyncPsycopg:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401
        self._connection = connection

    async def dialect(self) -> str:
        return "postgres"

    @asynccontextmanager
    async def atomic(self) -> AsyncIterator[None]:
        if _psycopg_autocommits(self._connection):
            async with self._connection.transaction():
                yield
        else:
            yield

    async def fetch(self, query: Query) -> Sequence[Row]:
        import psycopg
        from psycopg.rows import tuple_row

        async with psycopg.AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(query.statement.pyformat, query.params, prepare=False)
            return await cursor.fetchall() if cursor.description else ()


def _psycopg_autocommits(connection: Any) -> bool:  # noqa: ANN401
    from psycopg.pq import TransactionStatus

    return bool(
        connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
    )


# -- asyncpg ---------------------------------------------------------------------------------


class _Asyncpg:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401
        self._connection = connection

    async def dialect(self) -> str:
        return "postgres"

    @asynccontextmanager
    async def atomic(self) -> AsyncIterator[None]:
        if self._connection.is_in_transaction():
            yield
        else:
            async with self._connection.transaction():
                yield

    async def fetch(self, query: Query) -> Sequence[Row]:
        rows = await self._connection.fetch(query.statement.dollar, *query.for_dollar())
        return [tuple(row) for row in rows]


# -- SQLAlchemy ------------------------------------------------------------------------------


class _SqlAlchemy:
    """A ``Connection``, or a ``Session`` by the connection of its transaction."""

    def __init__(self, given: Any) -> None:  # noqa: ANN401
        self._connection = given.connection() if hasattr(given, "get_bind") else given

    def dialect(self) -> str:
        return str(self._connection.dialect.name)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        _require_transaction(self._connection)
        yield

    def fetch(self, query: Query) -> Sequence[Row]:
        result = self._connection.exec_driver_sql(*_driver_call(query, self._connection.dialect))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else ()


class _AsyncSqlAlchemy:
    """An ``AsyncConnection``, or an ``AsyncSession`` by the connection of its transaction."""

    def __init__(self, given: Any) -> None:  # noqa: ANN401
        self._given = given
        self._connection: Any = None

    async def dialect(self) -> str:
        session = hasattr(self._given, "get_bind")
        self._connection = await self._given.connection() if session else self._given
        return str(self._connection.dialect.name)

    @asynccontextmanager
    async def atomic(self) -> AsyncIterator[None]:
        _require_transaction(self._connection.sync_connection)
        yield

    async def fetch(self, query: Query) -> Sequence[Row]:
        call = _driver_call(query, self._connection.dialect)
        result = await self._connection.exec_driver_sql(*call)
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else ()


def _require_transaction(connection: Any) -> None:  # noqa: ANN401
    """Raise ``WrongConnection`` at the AUTOCOMMIT isolation level.

    SQLAlchemy begins by itself at any other level. At this one it cannot, so that a batch could be
    half enqueued, and would outlive a rollback.
    """
    level = connection.get_execution_options().get("isolation_level")
    if level is None:
        # what the engine was made with; the connection's public answer asks the database
        level = getattr(connection.dialect, "_on_connect_isolation_level", None)
    if level == "AUTOCOMMIT":
        raise WrongConnection(
            "this SQLAlchemy connection is at the isolation level AUTOCOMMIT and has no "
            "transaction to join: nothing was enqueued. Use an engine of another level, or "
            "enqueue without within="
        )


def _driver_call(query: Query, dialect: Any) -> tuple[str, Any]:  # noqa: ANN401
    """Text and parameters as the dialect's own driver wants them."""
    if dialect.paramstyle in ("pyformat", "format"):
        return query.statement.pyformat, dict(query.params)
    if dialect.paramstyle == "numeric_dollar":
        return query.statement.dollar, query.for_dollar()
    return query.statement.qmark, query.for_qmark()


# -- Django ----------------------------------------------------------------------------------


class _Django:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401
        self._connection = connection

    def dialect(self) -> str:
        return str(self._connection.vendor)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        from django.db import transaction

        # Without autocommit a transaction is open as well, though there is no block.
        if self._connection.in_atomic_block or not self._connection.get_autocommit():
            yield
        else:
            with transaction.atomic(using=self._connection.alias):
                yield

    def fetch(self, query: Query) -> Sequence[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(query.statement.pyformat, dict(query.params))
            return cursor.fetchall() if cursor.description else ()


# -- SQLite ----------------------------------------------------------------------------------


class _Sqlite:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401
        self._connection = connection

    def dialect(self) -> str:
        return "sqlite"

    @contextmanager
    def atomic(self) -> Iterator[None]:
        if self._connection.in_transaction:
            yield
            return
        # Begun here, since sqlite3 by itself begins only for some statements, and deferred.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        # A call that is cancelled, too, must not leave open what was begun here.
        except BaseException:
            self._connection.rollback()
            raise
        if _autocommits(getattr(self._connection, *_AUTOCOMMIT), self._connection):
            self._connection.execute("COMMIT")

    def fetch(self, query: Query) -> Sequence[Row]:
        cursor = self._connection.execute(query.statement.named, query.params)
        cursor.row_factory = None  # the caller's may make something else than tuples
        rows: Sequence[Row] = cursor.fetchall()
        return rows


class _Aiosqlite:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401
        self._connection = connection

    async def dialect(self) -> str:
        return "sqlite"

    @asynccontextmanager
    async def atomic(self) -> AsyncIterator[None]:
        if self._connection.in_transaction:
            yield
            return
        await self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            await self._connection.rollback()
            raise
        # sqlite3 tells it in the thread of the connection alone, which is aiosqlite's own
        mine = self._connection
        told = await mine._execute(getattr, mine._conn, *_AUTOCOMMIT)  # noqa: SLF001 - no other way
        if _autocommits(told, mine):
            await self._connection.execute("COMMIT")

    async def fetch(self, query: Query) -> Sequence[Row]:
        async with self._connection.execute(query.statement.named, query.params) as cursor:
            # The caller's may make something else than tuples.
            cursor.row_factory = None
            return [tuple(row) for row in await cursor.fetchall()]


_AUTOCOMMIT: Final = ("autocommit", None)
"""An attribute from Python 3.12 on, and what stands for it before."""


def _autocommits(told: object, connection: Any) -> bool:  # noqa: ANN401
    """True if the caller never begins implicitly, and so does not expect to have to commit."""
    return told is True or connection.isolation_level is None


BLOCKING: Final[Mapping[str, Callable[[Any], Joined]]] = {
    "psycopg:Connection": _Psycopg,
    "sqlalchemy:Connection": _SqlAlchemy,
    "sqlalchemy:Session": _SqlAlchemy,
    "sqlalchemy:scoped_session": _SqlAlchemy,
    "django:BaseDatabaseWrapper": _Django,
    "django:ConnectionProxy": _Django,
    "sqlite3:Connection": _Sqlite,
}

ASYNC: Final[Mapping[str, Callable[[Any], AsyncJoined]]] = {
    "psycopg:AsyncConnection": _AsyncPsycopg,
    "asyncpg:Connection": _Asyncpg,
    "asyncpg:PoolConnectionProxy": _Asyncpg,
    "sqlalchemy:AsyncConnection": _AsyncSqlAlchemy,
    "sqlalchemy:AsyncSession": _AsyncSqlAlchemy,
    "sqlalchemy:async_scoped_session": _AsyncSqlAlchemy,
    "aiosqlite:Connection": _Aiosqlite,
}
