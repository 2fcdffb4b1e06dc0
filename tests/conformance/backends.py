"""The backends under test: how each makes a store, and how a test looks behind its back.

Only this file knows their names; tests ask :class:`~offpath.store.protocol.Capabilities`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from offpath.runtime.clock import Clock
from offpath.store.capabilities import Profile
from offpath.store.offered import OFFERED
from offpath.store.protocol import Store
from offpath.store.schema import SchemaStep
from offpath.store.schema import steps as shipped
from tests.conformance import kept
from tests.conformance.partial_stores import RefusingRedis
from tests.sqlite_files import migrated_file

NAMES = ("memory", "sqlite", "postgres", "redis")

WHOLE = "OFFPATH_TEST_BACKENDS"
"""The environment variable that names backends whose every test is run, also beyond ``CORE``."""
CORE = frozenset(
    {
        *("claims", "dispatch_order", "enqueue", "fencing", "groups", "leasing", "life"),
        *("messages_settling", "model_based", "pauses", "rescue", "restarts"),
        *("schedules_firing", "settling", "unique"),
    }
)
"""The files that a plain run takes on a backend of some profiles: ``check.py matrix`` takes all."""

PATIENCE = 60.0
"""Seconds that a call may wait for a server: how fast a busy machine is, no test asks."""

_CLASSES = {
    "memory": "MemoryStore",
    "sqlite": "SqliteStore",
    "postgres": "PostgresStore",
    "redis": "RedisStore",
}


@dataclass(frozen=True, slots=True)
class Backend:
    """One place where jobs are kept. Every store it makes sees the same data, if it can."""

    name: str
    place: str
    """File name or URL; empty for memory."""
    login: str = ""
    """The URL of the role that uses the store, where that is not the one that owns it."""

    def store(self, clock: Clock | None) -> Store:
        """A new store, not yet open; None takes the clock that users get."""
        module, name, *arguments = self.address()
        made = getattr(importlib.import_module(module), name)
        given: dict[str, Any] = {} if clock is None else {"clock": clock}
        if self.name in {"postgres", "redis"}:
            given["call_timeout"] = PATIENCE
        return cast("Store", _refusing(made)(*arguments, **given))

    def address(self) -> tuple[str, ...]:
        """Module and name of the store's class, and what it is made with."""
        place = (self.login or self.place,) if self.place else ()
        return (f"offpath.store.{self.name}", _CLASSES[self.name], *place)

    def run_script(self, script: str) -> None:
        """Run a script as an operator would, outside of any store."""
        if self.name == "sqlite":
            import sqlite3

            connection = sqlite3.connect(self.place)
            connection.executescript(script)
            connection.close()
            return
        import psycopg

        with psycopg.connect(self.place, autocommit=True) as server:
            server.execute(script.encode())

    @property
    def migration_table(self) -> str:
        """The name of the list of applied migrations."""
        return {"sqlite": "offpath_migration", "postgres": "offpath.migration"}[self.name]

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement on a connection of the test's own, and commit; its rows."""
        return self.execute_all([statement])[0]

    def execute_all(self, statements: Iterable[str]) -> list[list[tuple[Any, ...]]]:
        """Run statements in one transaction of the test's own; the rows of each."""
        run = {"sqlite": _on_sqlite, "postgres": _on_postgres}[self.name]
        return run(self.place, tuple(statements))

    @property
    def refusal(self) -> type[Exception]:
        """The error of a statement that breaks a rule of the schema."""
        if self.name == "sqlite":
            import sqlite3

            return sqlite3.IntegrityError
        import psycopg

        return psycopg.IntegrityError

    @property
    def many_writers(self) -> bool:
        """True if several transactions can write at once."""
        return self.name == "postgres"

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A caller's own blocking connection, in a transaction that ends as the caller says."""
        with closing(_connect(self.name, self.place)) as connection:
            connection.execute(_BEGIN[self.name])
            yield connection
            connection.rollback()

    @asynccontextmanager
    async def async_transaction(self) -> AsyncIterator[Any]:
        """The same as :meth:`transaction`, on an async connection."""
        connection = await _connect_async(self.name, self.place)
        try:
            await connection.execute(_BEGIN[self.name])
            yield connection
            await connection.rollback()
        finally:
            await connection.close()

    def tables(self) -> list[str]:
        """Every table that holds data, not the list of migrations."""
        names = [str(name) for (name,) in self.execute(_TABLES[self.name])]
        return [name for name in names if name != self.migration_table]

    def content(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table, in an order that does not depend on how they are stored."""
        tables = self.tables()
        found = self.execute_all(f"select t.* from {table} t" for table in tables)
        return {table: sorted(rows, key=repr) for table, rows in zip(tables, found, strict=True)}

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The same as :meth:`content`, by the names of the columns and in no particular order."""
        with self._looking() as connection:
            named = connection.execute(_TABLES[self.name])
            tables = [str(name) for (name,) in named if name != self.migration_table]
            with _at_once(connection):
                cursors = [connection.execute(f"select t.* from {table} t") for table in tables]
                found = [_by_name(cursor) for cursor in cursors]
        return dict(zip(tables, found, strict=True))

    def _looking(self) -> AbstractContextManager[Any]:
        """A connection in a transaction, for a look at all tables."""
        return kept.transaction(self.place) if self.name == "postgres" else self.transaction()

    def sweep(self) -> None:
        """Delete every row, of jobs first, for a group's row stays as long as it has one.

        A truncate would wait for the disk once per table and index.
        """
        script = _sweeping(self).encode()
        with kept.transaction(self.place) as connection:
            connection.execute(script)

    def hurry(self) -> None:
        """Spare a server the wait for its disk at every commit: no test here cuts its power."""
        if self.name == "postgres":
            name = self.place.rpartition("/")[2]
            self.execute(f'alter database "{name}" set synchronous_commit = off')

    def emptied(self, path: Path) -> Backend:
        """A place like this one without a row: swept, or another file."""
        if self.name == "sqlite":
            return Backend(self.name, str(migrated_file(path)))
        self.sweep()
        return self

    def steps(self) -> tuple[SchemaStep, ...]:
        """The schema steps that this version ships."""
        return shipped(f"offpath.store.{self.name}.migrations")

    def ship(self, patch: pytest.MonkeyPatch, steps: tuple[SchemaStep, ...]) -> None:
        """Pretend to be a version that ships these steps."""
        if self.name == "sqlite":
            patch.setattr("offpath.store.sqlite.migrate.KNOWN", steps)
        else:
            patch.setattr("offpath.store.postgres.migrate.known", lambda: steps)
            patch.setattr("offpath.store.postgres.store.known", lambda: steps)

    def spoil_gates(self, kind: str) -> None:
        """Put into every gate's row what no store writes, or remove it."""
        self.run_script(SPOILT_GATES[kind][self.name])

    def trust_at_once(self, patch: pytest.MonkeyPatch) -> None:
        """Look for deaths also right after the server was started, or after another look."""
        if self.name == "postgres":
            patch.setattr("offpath.store.postgres.deaths.RESTART_GRACE", 0.0)
        elif self.name == "redis":
            patch.setattr("offpath.store.redis.workers.LOOK_EVERY", 0.0)

    def schema(self) -> list[tuple[Any, ...]]:
        """Every table, column, index, constraint and function that there is, as text."""
        return self.execute(_SCHEMA_QUESTIONS[self.name])


def runs(name: str, file: str) -> bool:
    """True if a run takes this file (``enqueue``) on a backend."""
    whole = os.environ.get(WHOLE, "").split()
    return offered_by(name) >= offered_by("memory") or name in whole or file in CORE


def offered_by(name: str) -> frozenset[Profile]:
    """The profiles that a backend offers."""
    return OFFERED[name]


def _refusing(made: Any) -> Any:
    """The store's class; of a partial one, a kind that raises what it answers as not offered."""
    return RefusingRedis if made.__name__ == "RedisStore" else made


@cache
def _sweeping(backend: Backend) -> str:
    """The script of a sweep, asked for once: each test on a server begins with one."""
    tables = sorted(backend.tables(), key=lambda table: not table.endswith("job"))
    # a ledger refuses to forget: only an operator of the server may, who turns its triggers off
    again = "select setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)"
    return ";".join(
        [
            "set local session_replication_role = replica",
            *(f"delete from {table}" for table in tables),
            # numbers begin anew, as they do in the other stores that a test compares with
            f"{again} from pg_sequences where schemaname = 'offpath'",
        ]
    )


def _by_name(cursor: Any) -> list[dict[str, Any]]:
    rows = cursor.fetchall()  # in a pipeline only this waits for the columns
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _at_once(connection: Any) -> AbstractContextManager[object]:
    """Send many statements in one go, where each would else wait for a server's answer."""
    pipeline = getattr(connection, "pipeline", None)
    return nullcontext() if pipeline is None else pipeline()


def _on_sqlite(place: str, statements: tuple[str, ...]) -> list[list[tuple[Any, ...]]]:
    import sqlite3

    connection = sqlite3.connect(Path(place), timeout=10)
    try:
        with connection:
            return [connection.execute(statement).fetchall() for statement in statements]
    finally:
        connection.close()


def _on_postgres(place: str, statements: tuple[str, ...]) -> list[list[tuple[Any, ...]]]:
    import psycopg

    with psycopg.connect(place) as connection:
        cursors = [connection.execute(statement.encode()) for statement in statements]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _connect(name: str, place: str) -> Any:
    if name == "sqlite":
        import sqlite3

        return sqlite3.connect(place, timeout=10)
    import psycopg

    return psycopg.connect(place)


async def _connect_async(name: str, place: str) -> Any:
    if name == "sqlite":
        import aiosqlite

        return await aiosqlite.connect(place, timeout=10)
    import psycopg

    return await psycopg.AsyncConnection.connect(place)


SPOILT_GATES = {
    "malformed": {
        "sqlite": "pragma ignore_check_constraints = on; update offpath_gate set open = 7",
        "postgres": "update offpath.gate set state = 'Open'",
    },
    "empty": {
        "sqlite": "pragma ignore_check_constraints = on; update offpath_gate set open = -1",
        "postgres": "update offpath.gate set state = null",
    },
    "missing": {
        "sqlite": "delete from offpath_gate",
        "postgres": "delete from offpath.gate",
    },
}
"""Scripts that leave gates in a state in which nothing may be routed."""

_BEGIN = {"sqlite": "begin immediate", "postgres": "select 1"}
"""The statement that opens a transaction."""

_TABLES = {
    "sqlite": "select name from sqlite_schema where type = 'table' and name like 'offpath%'",
    "postgres": "select schemaname || '.' || tablename from pg_tables where schemaname = 'offpath'",
}

_SCHEMA_QUESTIONS = {
    "sqlite": """
        select type, name, tbl_name, coalesce(sql, '') from sqlite_schema
        where name not like 'sqlite_%' order by type, name
    """,
    "postgres": """
        select 'column', c.table_name::text, c.column_name::text,
            concat_ws(' ', c.data_type, c.is_nullable, c.column_default)
        from information_schema.columns c where c.table_schema = 'offpath'
        union all
        select 'index', i.tablename::text, i.indexname::text, i.indexdef
        from pg_indexes i where i.schemaname = 'offpath'
        union all
        select 'constraint', k.conrelid::regclass::text, k.conname::text,
            pg_get_constraintdef(k.oid)
        from pg_constraint k join pg_namespace n on n.oid = k.connamespace
        where n.nspname = 'offpath'
        union all
        select 'function', p.proname::text, '', pg_get_functiondef(p.oid)
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'offpath'
        order by 1, 2, 3, 4
    """,
}
