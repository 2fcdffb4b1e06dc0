"""Joining the caller's own transaction, whatever library holds it.

A SQL backend describes its enqueue as *steps*: a generator that yields queries and is sent their
rows. Here the steps are driven over the connection that the caller works on: nothing is committed,
rolled back or closed, so the jobs share the fate of the caller's rows.

==========================================  =========  ========
connection                                  colour     database
==========================================  =========  ========
``psycopg.Connection``                      blocking   Postgres
``psycopg.AsyncConnection``                 async      Postgres
``asyncpg`` connection, pooled or not       async      Postgres
SQLAlchemy ``Connection``, ``Session``      blocking   both
SQLAlchemy ``AsyncConnection``, ``-Session``  async    both
Django's ``connection``                     blocking   both
``sqlite3.Connection``                      blocking   SQLite
``aiosqlite.Connection``                    async      SQLite
==========================================  =========  ========

A connection is recognised by the names of its class and its bases, so no library is imported that
the caller does not use. SQLAlchemy is always entered through ``connection()``: its asyncpg dialect
sends BEGIN lazily, and whoever reaches around it to the driver's connection is silently outside of
the transaction.

Where no transaction is open and the connection is in autocommit mode, the steps are made one
transaction of their own, so that a batch is never half enqueued. SQLAlchemy's isolation level
AUTOCOMMIT allows none, and is refused.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar

from offpath.errors import WrongConnection
from offpath.store.programs.dialect import Queries
from offpath.store.within.connections import ASYNC, BLOCKING, AsyncJoined, Joined
from offpath.store.within.translation import typed_errors

__all__ = ["Dialect", "require_joinable", "run_within", "run_within_blocking"]

T = TypeVar("T")
Dialect = Literal["postgres", "sqlite"]


def run_within_blocking(connection: Any, steps: Queries[T], *, dialect: Dialect) -> T:  # noqa: ANN401
    """Drive ``steps`` over a blocking connection, inside of its open transaction.

    Raises ``WrongConnection`` before a statement is sent when the connection is of an unknown
    kind, async, or of another database than the app.
    """
    joined = _blocking(connection)
    if joined is None:
        raise WrongConnection(_refusal(connection, blocking=True))
    _require(joined.dialect(), dialect)
    with typed_errors(), joined.atomic():
        return _drive(steps, joined)


async def run_within(connection: Any, steps: Queries[T], *, dialect: Dialect) -> T:  # noqa: ANN401
    """Drive ``steps`` over an async connection, or over a blocking one in this thread.

    Raises as :func:`run_within_blocking`.
    """
    joined = _async(connection)
    if joined is None:
        if _blocking(connection) is None:
            raise WrongConnection(_refusal(connection, blocking=False))
        return run_within_blocking(connection, steps, dialect=dialect)
    with typed_errors():
        _require(await joined.dialect(), dialect)
        async with joined.atomic():
            return await _drive_async(steps, joined)


def require_joinable(connection: Any, *, blocking: bool) -> None:  # noqa: ANN401
    """Raise ``WrongConnection`` for what no transaction can be joined of, on any database."""
    if _blocking(connection) is None and (blocking or _async(connection) is None):
        raise WrongConnection(_refusal(connection, blocking=blocking))


def _drive(steps: Queries[T], joined: Joined) -> T:
    """Whatever a query raises is raised where the steps asked for it, so that they may clean up."""
    try:
        query = next(steps)
        while True:
            try:
                rows = () if query.statement.nothing else joined.fetch(query)
            except Exception as error:  # noqa: BLE001 - it is raised again there
                query = steps.throw(error)
            else:
                query = steps.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        # Cut off in between, the steps end here and not when they are collected.
        steps.close()


async def _drive_async(steps: Queries[T], joined: AsyncJoined) -> T:
    try:
        query = next(steps)
        while True:
            try:
                rows = () if query.statement.nothing else await joined.fetch(query)
            except Exception as error:  # noqa: BLE001 - as above
                query = steps.throw(error)
            else:
                query = steps.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


# -- which kind ------------------------------------------------------------------------------


def _blocking(connection: Any) -> Joined | None:  # noqa: ANN401
    names = _names(connection)
    return next((make(connection) for name, make in BLOCKING.items() if name in names), None)


def _async(connection: Any) -> AsyncJoined | None:  # noqa: ANN401
    names = _names(connection)
    return next((make(connection) for name, make in ASYNC.items() if name in names), None)


def _names(connection: Any) -> frozenset[str]:  # noqa: ANN401
    """``top-level module:class`` of the connection's class and its bases."""
    return frozenset(
        f"{each.__module__.partition('.')[0]}:{each.__name__}" for each in type(connection).__mro__
    )


def _refusal(connection: Any, *, blocking: bool) -> str:  # noqa: ANN401
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if blocking and _async(connection) is not None:
        return (
            f"within= was given {kind}, an async connection, in a blocking call: "
            "use `await app.enqueue(..., within=connection)`"
        )
    return (
        f"within= cannot join {kind}: give a connection or session of psycopg, asyncpg, "
        "SQLAlchemy, Django, sqlite3 or aiosqlite (the object itself, not an engine or a pool)"
    )


_DIALECTS: Final = {"postgresql": "postgres"}


def _require(found: str, wanted: Dialect) -> None:
    name = _DIALECTS.get(found, found)
    if name != wanted:
        raise WrongConnection(
            f"within= was given a {name} connection, but this app stores its jobs in {wanted}: "
            "a transaction cannot span two databases"
        )
