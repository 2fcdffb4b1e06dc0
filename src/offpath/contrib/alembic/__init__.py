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

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from offpath.contrib.schema_steps import checked_step, run_steps
from offpath.errors import InvalidArgument
from offpath.store.sql import DEFAULT_SCHEMA, schema_name

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from offpath.store.within import Dialect

    IncludeName = Callable[[str | None, str, Mapping[str, str | None]], bool]
    IncludeObject = Callable[[Any, str | None, str, bool, Any], bool]

__all__ = ["include_name", "include_object", "upgrade"]


def include_name(
    *, also: IncludeName | None = None, schema: str | Iterable[str] = DEFAULT_SCHEMA
) -> IncludeName:
    """Make the ``include_name`` that keeps our tables from being read at all.

    ``also`` is one of your own, asked about what is left. ``schema`` are the schemas of your
    stores, where they have names of their own.
    """
    own = _schemas(schema)

    def included(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
        if kind == "schema" and name in own:
            return False
        if kind == "table" and _ours(name, parents.get("schema_name"), own):
            return False
        return also is None or also(name, kind, parents)

    return included


def include_object(
    *, also: IncludeObject | None = None, schema: str | Iterable[str] = DEFAULT_SCHEMA
) -> IncludeObject:
    """Make the ``include_object`` that keeps tables of ours out of a revision, however read.

    ``also`` is one of your own, asked about what is left. ``schema`` as for :func:`include_name`.
    """
    own = _schemas(schema)

    def included(
        item: Any,  # noqa: ANN401 - of whichever kind
        name: str | None,
        kind: str,
        reflected: bool,
        compare_to: Any,  # noqa: ANN401 - as item
    ) -> bool:
        if kind == "table" and _ours(name, item.schema, own):
            return False
        return also is None or also(item, name, kind, reflected, compare_to)

    return included


def _schemas(given: str | Iterable[str]) -> frozenset[str]:
    names = (given,) if isinstance(given, str) else given
    return frozenset(schema_name(one) for one in names)


def _ours(table: str | None, schema: str | None, own: Collection[str]) -> bool:
    # in SQLite the names of our tables begin with the schema's
    prefixes = tuple(f"{one}_" for one in own)
    return schema in own or (schema is None and (table or "").startswith(prefixes))


def upgrade(
    connection: Connection, to: int | None = None, *, schema: str = DEFAULT_SCHEMA
) -> list[int]:
    """Run our pending schema steps, up to the number ``to`` (all), in Alembic's transaction.

    Returns the numbers of the steps run: none when ``offpath migrate`` or an earlier call did it.
    Leave ``to`` out unless a migration of your own has to run between two steps: workers refuse a
    schema that has not all of them. ``schema`` is the store's, if it has a name of its own.
    Raises ``InvalidArgument`` and ``SchemaError`` kinds.
    """
    dialect = _dialect(connection)
    checked_step(dialect, to)
    if dialect == "sqlite":
        _begin(connection)
    return run_steps(connection, dialect, to, schema=schema)


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
