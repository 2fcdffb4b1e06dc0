"""The bare statements of a ledger: the rows that a run wrote, written again into bare tables.

The tables have the same columns, checks and indexes, and no triggers; nothing is locked, read,
decided or hashed. Each transaction has as many rows as one of the run's could have at best.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

_TABLES = ("ledger_posting", "ledger_link", "ledger_key", "ledger_attempt", "ledger_side")
_SIDES = "ledger_side"
_SINCE = {
    "ledger_posting": "at >= {began}",
    "ledger_key": "at >= {began}",
    "ledger_attempt": "at >= {began}",
    "ledger_side": "touched_at >= {began} and created_at >= {began}",
}
_MOVED = ("version", "state", "due_at", "touched_at", "body")

_Row: TypeAlias = dict[str, Any]


class _Written(NamedTuple):
    """The rows that a run wrote, by table; changed side rows, and where it left its accounts."""

    new: dict[str, list[_Row]]
    changed: list[_Row]


class _Part(NamedTuple):
    """One transaction's part."""

    new: dict[str, list[_Row]]
    changed: list[_Row]
    accounts: list[_Row]


def rate(backend: str, url: str, began: int, operations: int, batch: int) -> float | None:
    """Operations per second when only the rows are written that ``operations`` of them wrote since
    ``began`` (ms), with the rows of ``batch`` in each transaction. None for memory.
    """
    if backend == "sqlite":
        return _sqlite_rate(url, began, operations, batch)
    if backend == "postgres":
        return _postgres_rate(url, began, operations, batch)
    return None


def _parts(written: _Written, parts: int) -> list[_Part]:
    """The rows of each transaction, in the order in which they were written."""

    def cut(rows: Sequence[_Row], n: int) -> list[_Row]:
        return list(rows[n * len(rows) // parts : (n + 1) * len(rows) // parts])

    made = []
    for n in range(parts):
        new = {table: cut(rows, n) for table, rows in written.new.items()}
        last = {link["account"]: link for link in new["ledger_link"]}
        accounts = [
            {
                "id": name,
                "balance": link["balance"],
                "raised": link["raised"],
                "head": link["hash"],
                "number": link["number"],
            }
            for name, link in sorted(last.items())
        ]
        made.append(_Part(new, cut(written.changed, n), accounts))
    return made


def _timed(write: Callable[[_Part], None], parts: Sequence[_Part]) -> float:
    start = time.perf_counter()
    for part in parts:
        write(part)
    return time.perf_counter() - start


# -- Postgres --------------------------------------------------------------------------------


def _postgres_rate(url: str, began: int, operations: int, batch: int) -> float:
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        run: Any = connection.execute
        written = _postgres_written(run, began)
        run("create schema bare")
        for table in (*_TABLES, "ledger_account", "message"):
            run(f"create table bare.{table} (like offpath.{table} including all)")
        run("insert into bare.ledger_account (id) select id from offpath.ledger_account")
        columns = {table: _columns(run, table) for table in written.new}
        for row in written.changed:
            _postgres_insert(run, _SIDES, columns[_SIDES], [row])
        parts = _parts(written, -(-operations // batch))

        def write(part: _Part) -> None:
            with connection.transaction():
                _postgres_write(run, part, columns)

        return operations / _timed(write, parts)


def _postgres_written(run: Any, began: int) -> _Written:  # noqa: ANN401 - psycopg is imported when used
    new = {
        table: run(f"select * from offpath.{table} where {since.format(began=began)}").fetchall()
        for table, since in _SINCE.items()
    }
    new["ledger_link"] = run(
        "select l.* from offpath.ledger_link l join offpath.ledger_posting p on p.id = l.posting"
        f" where p.at >= {began} order by p.seq, l.account"
    ).fetchall()
    new["message"] = run(
        f"select * from offpath.message where created_at >= to_timestamp({began} / 1000.0)"
        " and box = 'out' order by position"
    ).fetchall()
    changed = run(
        f"select * from offpath.{_SIDES} where touched_at >= {began} and created_at < {began}"
    ).fetchall()
    return _Written(new, changed)


def _columns(run: Any, table: str) -> list[str]:  # noqa: ANN401 - see above
    """Columns that are written: without the generated ones."""
    rows = run(
        "select column_name as name from information_schema.columns where table_schema = 'bare'"
        " and table_name = %s and is_generated = 'NEVER' and is_identity = 'NO'"
        " order by ordinal_position",
        (table,),
    ).fetchall()
    return [row["name"] for row in rows]


def _postgres_insert(run: Any, table: str, columns: list[str], rows: list[_Row]) -> None:  # noqa: ANN401 - see above
    if rows:
        names = ", ".join(columns)
        run(
            f"insert into bare.{table} ({names}) select {names}"
            f" from json_populate_recordset(null::bare.{table}, %s::json)",
            (json.dumps(rows, default=str),),
        )


def _postgres_write(run: Any, part: _Part, columns: dict[str, list[str]]) -> None:  # noqa: ANN401 - see above
    for table, rows in part.new.items():
        _postgres_insert(run, table, columns[table], rows)
    if part.changed:
        moved = ", ".join(f"{one} = b.{one}" for one in _MOVED)
        run(
            f"update bare.{_SIDES} s set {moved}"
            f" from json_populate_recordset(null::bare.{_SIDES}, %s::json) as b"
            " where s.kind = b.kind and s.id = b.id",
            (json.dumps(part.changed),),
        )
    run(
        "update bare.ledger_account a set balance = b.balance, raised = b.raised, head = b.head,"
        " number = b.number from json_populate_recordset(null::bare.ledger_account, %s::json) as b"
        " where a.id = b.id",
        (json.dumps(part.accounts),),
    )


# -- SQLite ----------------------------------------------------------------------------------


def _sqlite_rate(url: str, began: int, operations: int, batch: int) -> float:
    path = Path(url.removeprefix("sqlite:///"))
    source = sqlite3.connect(path)
    source.row_factory = sqlite3.Row
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        bare = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        try:
            written = _sqlite_written(source, began)
            _sqlite_tables(source, bare, written)
            parts = _parts(written, -(-operations // batch))

            def write(part: _Part) -> None:
                bare.execute("begin immediate")
                _sqlite_write(bare, part)
                bare.execute("commit")

            return operations / _timed(write, parts)
        finally:
            bare.close()
            source.close()


def _sqlite_written(source: sqlite3.Connection, began: int) -> _Written:
    def rows(sql: str) -> list[_Row]:
        return [_stored(row) for row in source.execute(sql)]

    new = {
        table: rows(f"select * from offpath_{table} where {since.format(began=began)}")
        for table, since in _SINCE.items()
    }
    new["ledger_link"] = rows(
        "select l.* from offpath_ledger_link l join offpath_ledger_posting p on p.seq = l.id >> 16"
        f" where p.at >= {began} order by l.id"
    )
    new["message"] = rows(
        f"select * from offpath_message where created_at >= {began * 1000} and box = 'out'"
    )
    changed = rows(
        f"select * from offpath_{_SIDES} where touched_at >= {began} and created_at < {began}"
    )
    return _Written(new, changed)


def _stored(row: sqlite3.Row) -> _Row:
    """The columns of a row that are written: ``readable`` is computed, and carries the checks."""
    return {name: row[name] for name in row.keys() if name != "readable"}  # noqa: SIM118 - a Row


def _sqlite_tables(source: sqlite3.Connection, bare: sqlite3.Connection, written: _Written) -> None:
    bare.execute("pragma journal_mode = wal")
    bare.execute("pragma synchronous = full")
    names = [f"offpath_{table}" for table in (*_TABLES, "ledger_account", "message")]
    marks = ", ".join("?" * len(names))
    for row in source.execute(
        f"select sql from sqlite_master where type in ('table', 'index') and tbl_name in ({marks})"
        " and sql is not null order by type desc",
        names,
    ):
        bare.execute(row["sql"])
    accounts = [_stored(row) for row in source.execute("select * from offpath_ledger_account")]
    _sqlite_insert(bare, "ledger_account", [{**one, "number": 0} for one in accounts])
    _sqlite_insert(bare, _SIDES, written.changed)


def _sqlite_insert(bare: sqlite3.Connection, table: str, rows: list[_Row]) -> None:
    if rows:
        names, marks = ", ".join(rows[0]), ", ".join("?" * len(rows[0]))
        bare.executemany(
            f"insert into offpath_{table} ({names}) values ({marks})",
            [tuple(row.values()) for row in rows],
        )


def _sqlite_write(bare: sqlite3.Connection, part: _Part) -> None:
    for table, rows in part.new.items():
        _sqlite_insert(bare, table, rows)
    moved = ", ".join(f"{one} = :{one}" for one in _MOVED)
    bare.executemany(
        f"update offpath_{_SIDES} set {moved} where kind = :kind and id = :id", part.changed
    )
    bare.executemany(
        "update offpath_ledger_account set balance = :balance, raised = :raised, head = :head,"
        " number = :number where id = :id",
        part.accounts,
    )
