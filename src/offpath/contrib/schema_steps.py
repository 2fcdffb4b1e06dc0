"""Our schema steps over a connection of the caller's, in the caller's transaction.

For tools that keep a history of schema changes of their own (Alembic, Django). Each step is noted
in the same record as by ``offpath migrate``, so both may be used, in any order and by several
processes. A step that makes an index beside all work stops writes here, for it is in a transaction:
where tables are large, ``offpath migrate`` runs first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Final

from offpath.errors import InvalidArgument
from offpath.store.programs.dialect import Queries, in_schema
from offpath.store.programs.instants import instant
from offpath.store.protocol import Migration
from offpath.store.schema import SchemaStep, pending, pieces, steps
from offpath.store.sql import DEFAULT_SCHEMA, Catalogue, Row, catalogue, schema_name, statement
from offpath.store.sql import in_schema as named_in
from offpath.store.within import Dialect, run_within_blocking

PACKAGES: Final = {"postgres": "offpath.store.postgres", "sqlite": "offpath.store.sqlite"}
"""The packages that have the statements of each database."""


def known_steps(dialect: Dialect) -> tuple[SchemaStep, ...]:
    """The steps that this version ships for a database."""
    return steps(f"{PACKAGES[dialect]}.migrations")


def sqlite_tables() -> frozenset[str]:
    """The names of our tables on SQLite, without what they begin with."""
    from offpath.store.sqlite.baseline import FILE

    return frozenset(re.findall(r"(?i)create table \"?offpath_(\w+)", FILE.read_text("utf-8")))


def run_steps(
    connection: Any,  # noqa: ANN401 - of whichever library
    dialect: Dialect,
    to: int | None = None,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> list[int]:
    """Run the pending steps up to the number ``to`` (all); returns the numbers of those run.

    They share the fate of the connection's transaction. Raises ``InvalidArgument`` for a step that
    this version does not have, and ``SchemaError`` kinds.
    """
    last = checked_step(dialect, to)
    if dialect == "postgres":
        program = _on_postgres(last, schema_name(schema))
    else:
        program = in_schema(_on_sqlite(last), schema_name(schema))
    return run_within_blocking(connection, program, dialect=dialect)


def checked_step(dialect: Dialect, to: int | None) -> int:
    """The number of the last step to run. Raises ``InvalidArgument``."""
    newest = len(known_steps(dialect))
    if to is None:
        return newest
    if not 1 <= to <= newest:
        raise InvalidArgument(
            f"there is no schema step {to} of {dialect}: this version of offpath has 1 to {newest}"
        )
    return to


def _on_postgres(last: int, schema: str) -> Queries[list[int]]:
    sql = catalogue(PACKAGES["postgres"], schema=schema)
    from offpath.store.postgres.migrate import WAITING_LOCK

    yield sql[WAITING_LOCK]()
    kept = yield _KEEP()
    yield sql["own_names"]()
    yield sql["as_owner"]()
    ((made, record),) = yield sql["has_schema"]()
    if not made:
        yield sql["make_schema"]()
    if not record:
        yield sql["make_record"]()
    done = yield from _pending(sql, last, "postgres", schema)
    # what follows in this transaction is the caller's
    yield _RESTORE(path=kept[0][0], role=kept[0][1])
    return done


_KEEP = statement("keep", "select current_setting('search_path'), current_setting('role')")
_RESTORE = statement(
    "restore",
    "select pg_catalog.set_config('search_path', :path::text, true), "
    "pg_catalog.set_config('role', :role::text, true)",
)


def _on_sqlite(last: int) -> Queries[list[int]]:
    sql = catalogue(PACKAGES["sqlite"])
    yield sql["make_record"]()
    return (yield from _pending(sql, last, "sqlite"))


def _pending(
    sql: Catalogue, last: int, dialect: Dialect, schema: str = DEFAULT_SCHEMA
) -> Queries[list[int]]:
    rows = yield sql["applied"]()
    left = pending(known_steps(dialect), [_migration(row) for row in rows])
    todo = [step for step in left if step.number <= last]
    for step in todo:
        for number, text in enumerate(_statements(step.within, dialect)):
            yield statement(f"step_{step.number}_{number}", named_in(text, schema))()
        values = {"number": step.number, "name": step.name, "checksum": step.checksum}
        if dialect == "sqlite":
            values["applied_at"] = time.time_ns() // 1000
        yield sql["record"](**values)
    return [step.number for step in todo]


def _migration(row: Row) -> Migration:
    number, name, checksum, at = row
    return Migration(number=number, name=name, checksum=checksum, applied_at=instant(at))


def _statements(text: str, dialect: Dialect) -> Iterator[str]:
    if dialect == "sqlite":
        from offpath.store.sqlite.migrate import statements

        return statements(text)
    return pieces(text)
