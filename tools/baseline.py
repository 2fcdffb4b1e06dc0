"""The schema of a new SQLite file, written from the schema steps: ``python -m tools.baseline``."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from offpath.store.sqlite.baseline import head
from offpath.store.sqlite.migrate import KNOWN, statements

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "src" / "offpath" / "store" / "sqlite" / "baseline" / "schema.sql"
_OBJECTS = """
    select sql from sqlite_schema
    where sql is not null and name not like 'sqlite\\_%' escape '\\' order by rowid
"""


def written() -> str:
    """The text of the baseline. Raises ``ValueError`` where a step writes rows: it has none."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in KNOWN:
            for statement in statements(step.sql):
                connection.execute(statement)
        made = [str(sql) for (sql,) in connection.execute(_OBJECTS)]
        if rows := _rows(connection):
            raise ValueError(f"a step writes rows, which a baseline does not: {rows}")
    return head(KNOWN) + "".join(f"\n{sql};\n" for sql in made)


def _rows(connection: sqlite3.Connection) -> list[str]:
    tables = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    return [name for (name,) in tables if _any(connection, name)]


def _any(connection: sqlite3.Connection, table: str) -> bool:
    asked = f'select 1 from "{table}"'  # noqa: S608 - a name that a step of ours chose
    return connection.execute(asked).fetchone() is not None


def main() -> int:
    """Write the file."""
    FILE.write_text(written(), "utf-8")
    print(FILE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
