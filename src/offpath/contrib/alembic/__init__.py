"""Alembic beside offpath: autogenerate leaves our tables alone, and a revision may make them.

In ``env.py``::

    from offpath.contrib import alembic as offpath_alembic

    context.configure(
        ...,
        include_name=offpath_alembic.include_name(),
        include_object=offpath_alembic.include_object(),
    )

In a revision, for teams that want one history::

    def upgrade():
        offpath_alembic.upgrade(op.get_bind())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from offpath.contrib.schema_steps import checked_step, run_steps
from offpath.errors import InvalidArgument
from offpath.store.sql import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from offpath.store.within import Dialect

    IncludeName = Callable[[str | None, str, Mapping[str, str | None]], bool]
    IncludeObject = Callable[[Any, str | None, str, bool, Any], bool]

__all__ = ["include_name", "include_object", "upgrade"]

_PREFIX = "offpath_"
"""The names of all our tables in SQLite begin so; in Postgres they have a schema of their own."""


def include_name(*, also: IncludeName | None = None) -> IncludeName:
    """Make the ``include_name`` that keeps our tables from being read at all.

    ``also`` is one of your own, asked about what is left.
    """

    def included(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
        if kind == "schema" and name == DEFAULT_SCHEMA:
            return False
        if kind == "table" and _ours(name, parents.get("schema_name")):
            return False
        return also is None or also(name, kind, parents)

    return included


def include_object(*, also: IncludeObject | None = None) -> IncludeObject:
    """Make the ``include_object`` that keeps tables of ours out of a revision, however read.

    ``also`` is one of your own, asked about what is left.
    """

    def included(
        item: Any,  # noqa: ANN401 - of whichever kind
        name: str | None,
        kind: str,
        reflected: bool,
        compare_to: Any,  # noqa: ANN401 - as item
    ) -> bool:
        if kind == "table" and _ours(name, item.schema):
            return False
        return also is None or also(item, name, kind, reflected, compare_to)

    return included


def _ours(table: str | None, schema: str | None) -> bool:
    return schema == DEFAULT_SCHEMA or (table or "").startswith(_PREFIX)


def upgrade(connection: Connection, to: int | None = None) -> list[int]:
    """Run our pending schema steps, up to the number ``to`` (all), in Alembic's transaction.

    Returns the numbers of the steps run: none when ``offpath migrate`` or an earlier call did it.
    Leave ``to`` out unless a migration of your own has to run between two steps: workers refuse a
    schema that has not all of them.
    Raises ``InvalidArgument`` and ``SchemaError`` kinds.
    """
    dialect = _dialect(connection)
    checked_step(dialect, to)
    if dialect == "sqlite":
        _begin(connection)
    return run_steps(connection, dialect, to)


def _dialect(connection: Connection) -> Dialect:
    match connection.dialect.name:
        case "postgresql":
            return "postgres"
        case "sqlite":
            return "sqlite"
        case other:
            raise InvalidArgument(f"offpath keeps jobs in Postgres or SQLite, not in {other}")


def _begin(connection: Connection) -> None:
    """Begin the transaction that Python's driver does not begin for statements of a schema."""
    driver: Any = connection.connection.driver_connection
    if not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
