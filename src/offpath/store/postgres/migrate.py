"""Bringing the schema up to date: one step a transaction, one process at a time.

Steps that make indexes run outside of any transaction, since within one they stop all writes.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

import psycopg

from offpath.errors import StoreBusy
from offpath.store.postgres.address import Address
from offpath.store.postgres.faults import translated
from offpath.store.postgres.session import Connection
from offpath.store.postgres.steps import from_micros
from offpath.store.programs.dialect import Rows, Steps, ask
from offpath.store.protocol import Migration
from offpath.store.schema import SchemaStep, pending, pieces, steps
from offpath.store.sql import DEFAULT_SCHEMA, Catalogue, Query, catalogue, in_schema

PACKAGE: Final = "offpath.store.postgres"

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds after which a step is given up for which others' transactions are in the way."""
BETWEEN: Final = (0.5, 1.5)
"""Seconds between two tries: long enough for all who waited behind the last one."""
_TURNS: Final = (0.02, 0.1)
"""Seconds between two looks while another process changes the schema."""
WAITING_LOCK: Final = "migration_lock"
"""The statement by which a transaction of somebody else waits for its turn."""
_ANOTHER: Final = (
    "another process is changing the schema of this database: run `offpath migrate` again when it "
    "is done"
)

_chance = random.Random()  # noqa: S311 - only spreads retries


class _Taken(Exception):
    """Another process is changing the schema."""


def known() -> tuple[SchemaStep, ...]:
    """The steps that this version ships."""
    return steps(f"{PACKAGE}.migrations")


def script(*, schema: str = DEFAULT_SCHEMA, after: int = 0) -> str:
    """SQL that brings a database from step ``after`` (0: nothing) up to date, to run by hand."""
    sql = catalogue(PACKAGE, schema=schema)
    parts = [] if after else [_home_text(sql)]
    parts += [
        _step_text(step, sql, schema, fresh=not after) for step in known() if step.number > after
    ]
    return "\n".join(parts)


def roles_script(*, schema: str = DEFAULT_SCHEMA) -> str:
    """SQL that makes the roles of a schema that is up to date, and grants what each may do."""
    sql = catalogue(PACKAGE, schema=schema)
    return _transaction_text(sql, ";\n\n".join(sql[name].named for name in _ROLES))


# In this order: rights on the views are granted to the roles, so both are there by then.
_ROLES: Final = ("make_views", "make_roles", "grant_roles")


def _home_text(sql: Catalogue) -> str:
    names = ("make_schema", "make_record")
    return _transaction_text(sql, ";\n\n".join(sql[name].named for name in names))


def _step_text(step: SchemaStep, sql: Catalogue, schema: str, *, fresh: bool) -> str:
    """The step as text. In a database that is made anew there is nobody whom it could stop."""
    # number, name and checksum are of our own making: digits, lower-case words and hex
    note = sql["record"].named.partition("\nreturning")[0]
    for name, value in (
        ("number", str(step.number)),
        ("name", f"'{step.name}'"),
        ("checksum", f"'{step.checksum}'"),
    ):
        note = note.replace(f":{name}::", f"{value}::")
    if step.online and not fresh:
        text = in_schema(step.sql, schema).strip()
        return f"-- outside of a transaction, beside all work\n\n{text}\n\n{note};\n"
    return _transaction_text(sql, f"{in_schema(step.within, schema).strip()}\n\n{note}")


def _transaction_text(sql: Catalogue, text: str) -> str:
    return f"begin;\n\n{sql['own_names'].named};\n\n{text};\n\ncommit;\n"


def applied_steps(*, sql: Catalogue) -> Steps[list[Migration]]:
    """The steps that the database says are applied; none when there is no schema."""
    ((_, record),) = yield from ask(sql["has_schema"]())
    if not record:
        return []
    return list(_migrations((yield from ask(sql["applied"](), last=True))))


class Migrator:
    """Reads and changes the schema over a connection of its own."""

    def __init__(
        self, address: Address, schema: str, before: Callable[[str], None] | None = None
    ) -> None:
        self._address = address
        self._schema = schema
        self._sql = catalogue(PACKAGE, schema=schema)
        self._before = before

    async def applied(self) -> list[Migration]:
        """The steps that the database says are applied; none when there is no schema."""
        async with self._session() as connection:
            await self._begin(connection)
            return await self._applied(connection)

    async def migrate(self) -> list[Migration]:
        """Run the pending steps; returns those that this call ran."""
        done = []
        async with self._session() as connection:
            while (step := await self._patiently(connection, self._next)) is not None:
                done.append(step)
        return done

    async def grant_roles(self) -> None:
        """Make the roles, and grant what each may do. Repeating it does no harm."""
        async with self._session() as connection:
            await self._patiently(connection, self._grant_roles)

    async def _grant_roles(self, connection: Connection) -> None:
        await self._begin(connection)
        await self._take_turn(connection)
        for name in _ROLES:
            # several statements in one text, which has no parameters
            await connection.execute(self._sql[name].named.encode())
        await self._ask(connection, self._sql["commit"]())

    async def _patiently(
        self, connection: Connection, work: Callable[[Connection], Awaitable[T]]
    ) -> T:
        """Do what needs locks of tables again and again, until nobody is in the way for a moment.

        Each try is short: while it waits behind somebody's transaction, everybody else waits
        behind it.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return await work(connection)
            except psycopg.errors.LockNotAvailable:
                if time.monotonic() > until:
                    raise
                # Before the pause: this transaction holds the turn, and what locks it got.
                await connection.rollback()
            except _Taken:
                if time.monotonic() > until:
                    raise StoreBusy(_ANOTHER) from None
                await connection.rollback()
                await asyncio.sleep(_chance.uniform(*_TURNS))
                continue
            await asyncio.sleep(_chance.uniform(*BETWEEN))

    async def _take_turn(self, connection: Connection) -> None:
        await self._taken(connection, "migration_turn")
        await self._ask(connection, self._sql["impatience"]())

    async def _taken(self, connection: Connection, lock: str) -> None:
        # Tried and never waited for: who makes an index online waits for every open transaction.
        ((got,),) = await self._ask(connection, self._sql[lock]())
        if not got:
            raise _Taken

    async def _next(self, connection: Connection) -> Migration | None:
        """Run one pending step; None when there is none."""
        await self._begin(connection)
        await self._take_turn(connection)
        await self._ask(connection, self._sql["as_owner"]())
        left = pending(known(), await self._applied(connection))
        online = bool(left) and left[0].online
        done = await self._run(connection, left[0]) if left and not online else None
        await self._ask(connection, self._sql["commit"]())
        # Only behind the commit: the server makes no index of this kind within a transaction.
        return await self._beside_work(connection, left[0]) if online else done

    async def _beside_work(self, connection: Connection, step: SchemaStep) -> Migration | None:
        """Run an online step: its statements one by one, while everybody writes.

        It holds the turn by its session. Nobody waits for that in a transaction, for the server
        lets an index wait until all transactions have ended that began before it.
        """
        # first the path: names of the session's own could stand before the server's
        await self._ask(connection, self._sql["online_terms"]())
        await self._taken(connection, "migration_hold")
        try:
            if step not in pending(known(), await self._applied(connection)):
                raise _Taken  # another process has just run it: look again
            await self._ask(connection, self._sql["as_owner_online"]())
            self._tell(step)
            for text in pieces(in_schema(step.sql, self._schema)):
                await connection.execute(text.encode())
            return await self._record(connection, step)
        finally:
            if not connection.closed:
                # The session goes on to the next step, which must find neither this turn nor these
                # settings.
                await self._ask(connection, self._sql["migration_free"]())
                await connection.execute("reset all")

    async def _begin(self, connection: Connection) -> None:
        await self._ask(connection, self._sql["begin"]())
        await self._ask(connection, self._sql["patience"]())

    async def _run(self, connection: Connection, step: SchemaStep) -> Migration:
        await self._make_home(connection)
        self._tell(step)
        await connection.execute(in_schema(step.sql, self._schema).encode())
        return await self._record(connection, step)

    def _tell(self, step: SchemaStep) -> None:
        if self._before is not None:
            self._before(f"migration_{step.number:04}")

    async def _record(self, connection: Connection, step: SchemaStep) -> Migration:
        rows = await self._ask(
            connection,
            self._sql["record"](number=step.number, name=step.name, checksum=step.checksum),
        )
        return Migration(
            number=step.number,
            name=step.name,
            checksum=step.checksum,
            applied_at=from_micros(rows[0][0]),
        )

    async def _make_home(self, connection: Connection) -> None:
        """The schema may have been made by an owner for a role that may not make any."""
        schema, record = (await self._ask(connection, self._sql["has_schema"]()))[0]
        if not schema:
            await self._ask(connection, self._sql["make_schema"]())
        if not record:
            await self._ask(connection, self._sql["make_record"]())

    async def _applied(self, connection: Connection) -> list[Migration]:
        ((_, record),) = await self._ask(connection, self._sql["has_schema"]())
        if not record:
            return []
        return list(_migrations(await self._ask(connection, self._sql["applied"]())))

    async def _ask(self, connection: Connection, query: Query) -> Rows:
        if self._before is not None:
            self._before(query.name)
        text = query.statement.pyformat.encode()
        cursor = await connection.execute(text, query.params or None)
        return cast("Rows", await cursor.fetchall()) if cursor.description else []

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Connection]:
        """A connection that is closed at the end, which also ends an open transaction."""
        connection: Connection | None = None
        try:
            connection = await Connection.connect(
                self._address.conninfo, autocommit=True, prepare_threshold=None
            )
            yield connection
        except psycopg.Error as error:
            raise translated(error, self._address.shown) from error
        finally:
            if connection is not None:
                await connection.close()


def _migrations(rows: Iterable[Any]) -> Iterable[Migration]:
    return (
        Migration(number=number, name=name, checksum=checksum, applied_at=from_micros(at))
        for number, name, checksum, at in rows
    )
