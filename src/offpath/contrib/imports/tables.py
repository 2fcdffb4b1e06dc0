"""The tables of another queue, in the database that an app's jobs are in."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from offpath.config import normal_url
from offpath.errors import InvalidArgument
from offpath.store.backends import scheme_of, sqlite_path
from offpath.store.sql import Query, Row, catalogue, schema_name
from offpath.store.within import Dialect
from offpath.store.within.translation import typed_errors

if TYPE_CHECKING:
    import psycopg

    from offpath.app import App

SQL: Final = catalogue("offpath.contrib.imports")


class TheirTables(Protocol):
    """One blocking connection to the database, with nothing open."""

    dialect: Dialect
    connection: Any
    """The connection itself, for ``within=``."""

    def rows(self, query: Query, /) -> Sequence[Row]:
        """Run one statement; its rows, none for one that has no answer."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """A transaction; inside of one a savepoint."""
        ...


@contextmanager
def open_tables(app: App, *, schema: str | None = None) -> Iterator[TheirTables]:
    """Open a connection of its own to the database of an app.

    ``schema`` is where the tables of others are on Postgres, unless the role's search path leads
    there. Raises ``InvalidArgument`` for a store that is neither Postgres nor SQLite.
    """
    url = normal_url(app.settings.url)
    with typed_errors():
        match scheme_of(url):
            case "sqlite" if schema is not None:
                raise InvalidArgument("--schema is for Postgres: SQLite has no schemas")
            case "sqlite":
                yield from _on_sqlite(url)
            case "postgresql":
                yield from _on_postgres(url, None if schema is None else schema_name(schema))
            case scheme:
                raise InvalidArgument(
                    "jobs are imported into Postgres or SQLite, where their old tables are; "
                    f"the store of this app is {scheme}"
                )


def require_table(tables: TheirTables, name: str, source: str) -> None:
    """Raise ``InvalidArgument`` unless a table is there."""
    ask = {"postgres": "has_table_postgres", "sqlite": "has_table_sqlite"}[tables.dialect]
    if not tables.rows(SQL[ask](name=name)):
        raise InvalidArgument(
            f"there is no table {name} in this database: {source} keeps its rows elsewhere, "
            "or in a schema to be named by --schema"
        )


class _PostgresTables:
    dialect: Dialect = "postgres"

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def rows(self, query: Query, /) -> Sequence[Row]:
        with self.connection.cursor() as cursor:
            cursor.execute(query.statement.pyformat, dict(query.params))
            return cursor.fetchall() if cursor.description else ()

    def transaction(self) -> AbstractContextManager[object]:
        return self.connection.transaction()


def _on_postgres(url: str, schema: str | None) -> Iterator[TheirTables]:
    import psycopg

    from offpath.store.postgres.address import parse_address

    with psycopg.connect(parse_address(url).conninfo, autocommit=True) as connection:
        tables = _PostgresTables(connection)
        if schema is not None:
            tables.rows(SQL["set_path"](path=f'"{schema}", pg_catalog'))
        yield tables


class _SqliteTables:
    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def rows(self, query: Query, /) -> Sequence[Row]:
        rows: Sequence[Row] = self.connection.execute(
            query.statement.named, query.params
        ).fetchall()
        return rows

    @contextmanager
    def transaction(self) -> Iterator[object]:
        inner = self.connection.in_transaction
        begin, end, back = _SAVEPOINT if inner else _WHOLE
        self.connection.execute(begin)
        try:
            yield None
        except BaseException:
            for one in back:
                self.connection.execute(one)
            raise
        self.connection.execute(end)


_WHOLE: Final = ("begin immediate", "commit", ("rollback",))
_SAVEPOINT: Final = (
    "savepoint import_part",
    "release import_part",
    ("rollback to import_part", "release import_part"),
)


def _on_sqlite(url: str) -> Iterator[TheirTables]:
    connection = sqlite3.connect(sqlite_path(url), isolation_level=None, timeout=30.0)
    try:
        yield _SqliteTables(connection)
    finally:
        connection.close()
