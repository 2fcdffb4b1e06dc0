"""Rows as somebody else may write them: each column of a table with each value of its type."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tests.conformance.backends import Backend

_BIG: Final = "x" * 2**20

VALUES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "postgres": {
        "timestamp with time zone": (
            "null", "'infinity'", "'-infinity'", "'4000-01-01 BC'", "'20000-01-01'",
        ),
        "jsonb": (
            "null", "'5'", "'null'", "'\"x\"'", "'{}'", "'{\"a\": 1}'", "'[]'", "'[1, null]'",
            "'[[\"a\"]]'", "'true'",
        ),
        "json": ("null", "'5'", "'[1, null]'"),
        "text": ("null", "''", "'{'", "'5'", "'[1, null]'", "'foreign'", f"'{_BIG}'"),
        "bigint": ("null", "0", "-1", str(2**63 - 1), str(-(2**63))),
        "integer": ("null", "0", "-1", str(2**31 - 1), str(-(2**31))),
        "smallint": ("null", "-1", "32767", "-32768"),
        "double precision": ("null", "-1", "'NaN'", "'Infinity'", "'-Infinity'", "1e300"),
        "boolean": ("null", "true", "false"),
        "uuid": ("null", "'00000000-0000-0000-0000-000000000000'"),
    },
    "sqlite": {
        "INTEGER": ("null", "0", "-1", str(2**62), str(2**63 - 2), str(-(2**63))),
        "TEXT": (
            "null", "''", "'{'", "'5'", "'{\"a\": 1}'", "'[1, null]'", "'foreign'", f"'{_BIG}'"),
    },
}  # fmt: skip
"""Values that a column may hold by its type, of which we write the least."""

_COLUMNS: Final = {
    "sqlite": "select name, upper(type) from pragma_table_info('{table}')",
    "postgres": (
        "select column_name::text, data_type::text from information_schema.columns"
        " where table_schema = 'offpath' and 'offpath.' || table_name = '{table}'"
        " and is_generated = 'NEVER' order by ordinal_position"
    ),
}

_KEYS: Final = {
    "sqlite": "select name from pragma_table_info('{table}') where pk > 0",
    "postgres": (
        "select a.attname::text from pg_index i join pg_attribute a"
        " on a.attrelid = i.indrelid and a.attnum = any (i.indkey)"
        " where i.indrelid = '{table}'::regclass and i.indisunique and i.indpred is null"
    ),
}


def write_bad_rows(backend: Backend, table: str, template: str, first: int = 1) -> int:
    """Copy the row for which ``template`` holds, once for each value of each column.

    The rules of the schema are out of force, but for types, keys and NOT NULL: what the database
    itself refuses cannot be in anybody's way. Returns how many rows were taken;
    their keys are numbered from ``first``.
    """
    return taken(backend, _statements(backend, table, template, first))


def write_random_rows(
    backend: Backend, table: str, template: str, chance: random.Random, count: int, first: int
) -> int:
    """Copy the row so often, each with random values in one to four of its columns.

    As :func:`write_bad_rows`; several wrong values meet in one row.
    """
    types = columns_of(backend, table)
    keys = _key_columns(backend, table, types)
    free = [name for name in types if name not in keys] or list(types)
    statements = []
    for number in range(first, first + count):
        columns = chance.sample(free, min(len(free), chance.randint(1, 4)))
        values = {name: _random(backend.name, types[name], chance) for name in columns}
        statements.append(_insert(backend, table, template, types, keys, values, number))
    return taken(backend, statements)


def _random(backend: str, kind: str, chance: random.Random) -> str:
    """A literal of this type, or in SQLite of any."""
    known = VALUES[backend].get(kind, ("null",))
    made = _literal(kind.upper() if backend == "sqlite" else kind, chance)
    if backend == "sqlite" and chance.random() < 0.2:
        made = chance.choice(["x'00ff'", "1.5", "9e999", "'text'", "7"])
    return made if made is not None and chance.random() < 0.6 else chance.choice(known)


def _literal(kind: str, chance: random.Random) -> str | None:
    match kind:
        case "timestamp with time zone":
            years = chance.randint(1, 290_000), chance.choice(["", " BC"])
            return f"'{years[0] % 4_700 if years[1] else years[0]:04}-01-01{years[1]}'"
        case "jsonb" | "json":
            return _quoted(json.dumps(_document(chance)))
        case "text" | "TEXT":
            some = _document(chance)
            return _quoted(some if isinstance(some, str) else json.dumps(some))
        case "bigint" | "INTEGER":
            return str(chance.choice([-1, 1]) * (chance.getrandbits(chance.randint(1, 63))))
        case "integer":
            return str(chance.randint(-(2**31), 2**31 - 1))
        case "smallint":
            return str(chance.randint(-(2**15), 2**15 - 1))
        case "double precision":
            return repr(chance.uniform(-1, 1) * 10 ** chance.randint(0, 300))
        case _:
            return None


_SOME: Final = "abc'\"\\{}[]:,%_\u00e9\u202e\ud7ff\n\t\x1b\U0001f600"


def _document(chance: random.Random, depth: int = 0) -> object:
    """A random value of JSON."""
    match chance.randint(0, 4 if depth > 2 else 6):
        case 0:
            return None
        case 1:
            return chance.choice([True, False])
        case 2:
            return chance.choice([-1, 1]) * chance.getrandbits(chance.randint(1, 80))
        case 3:
            return chance.uniform(-1e9, 1e9)
        case 4:
            return "".join(chance.choices(_SOME, k=chance.randint(0, 12)))
        case 5:
            return [_document(chance, depth + 1) for _ in range(chance.randint(0, 3))]
        case _:
            names = chance.choices(["at", "kind", "name", "id", "template", "x"], k=3)
            return {name: _document(chance, depth + 1) for name in names}


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def taken(backend: Backend, statements: Iterable[str]) -> int:
    """Run each by itself, the rules out of force; returns how many the database took."""
    count = 0
    with backend.transaction() as connection:
        connection.execute(_LIFTED[backend.name])
        for statement in statements:
            connection.execute("savepoint one")
            try:
                connection.execute(statement)
            except _errors(backend):
                connection.execute("rollback to one")
            else:
                connection.execute("release one")
                count += 1
        connection.commit()
    return count


_LIFTED: Final = {
    "sqlite": "pragma ignore_check_constraints = on",
    "postgres": "set local session_replication_role = replica",
}


def _errors(backend: Backend) -> type[Exception]:
    if backend.name == "sqlite":
        import sqlite3

        return sqlite3.Error
    import psycopg

    return psycopg.Error


@contextmanager
def lifted(backend: Backend, tables: Sequence[str]) -> Iterator[None]:
    """The schema's rules about values are taken from these tables, to try what is behind them.

    A database that other tests use has them again in the end, and no row.
    """
    if backend.name == "sqlite":
        guards = backend.execute(
            "select name from sqlite_schema where type = 'trigger' and name like '%readable%'"
        )
        backend.execute_all(
            [f"drop trigger {name}" for (name,) in guards]
            + [f"alter table {table} drop column readable" for table in _ruled(backend, tables)]
        )
        yield
        return
    listed = ", ".join(f"'{table}'::regclass" for table in tables)
    rules = backend.execute(
        "select conrelid::regclass::text, conname::text, pg_get_constraintdef(oid)"
        f" from pg_constraint where contype = 'c' and conrelid in ({listed})"
    )
    backend.execute_all(
        [f'alter table {table} drop constraint "{name}"' for table, name, _ in rules]
    )
    try:
        yield
    finally:
        backend.sweep()
        backend.execute_all(
            [f'alter table {table} add constraint "{name}" {rule}' for table, name, rule in rules]
        )


def _ruled(backend: Backend, tables: Sequence[str]) -> list[str]:
    """The tables of a SQLite file with a column that carries rules."""
    with_rules = backend.execute(
        "select t.name from pragma_table_list as t, pragma_table_xinfo(t.name) as c"
        " where c.name = 'readable'"
    )
    return [name for (name,) in with_rules if name in tables]


def _statements(backend: Backend, table: str, template: str, first: int) -> Iterator[str]:
    types = columns_of(backend, table)
    keys = _key_columns(backend, table, types)
    number = first
    for column, kind in types.items():
        for value in VALUES[backend.name].get(kind, ()):
            number += 1
            yield _insert(backend, table, template, types, keys, {column: value}, number)


def columns_of(backend: Backend, table: str) -> dict[str, str]:
    """The columns of a table that are written, each with its type."""
    return dict(backend.execute(_COLUMNS[backend.name].format(table=table)))


def _key_columns(backend: Backend, table: str, types: Mapping[str, str]) -> set[str]:
    keys = {name for (name,) in backend.execute(_KEYS[backend.name].format(table=table))}
    if backend.name == "sqlite":
        keys |= {name for name in ("id", "seq", "position") if name in types}
    return keys


def _insert(
    backend: Backend,
    table: str,
    template: str,
    types: dict[str, str],
    keys: set[str],
    values: Mapping[str, str],
    number: int,
) -> str:
    picked = []
    for name, kind in types.items():
        if (value := values.get(name)) is not None:
            picked.append(f"{value}::{kind}" if backend.name == "postgres" else value)
        elif name in keys:
            picked.append(_key(backend, kind, number))
        else:
            picked.append(f't."{name}"')
    names = ", ".join(f'"{name}"' for name in types)
    over = "overriding system value" if backend.name == "postgres" else ""
    source = f"from {table} t where {template} limit 1"
    return f"insert into {table} ({names}) {over} select {', '.join(picked)} {source}"


def _key(backend: Backend, kind: str, number: int) -> str:
    if kind == "uuid":
        return f"'00000000-0000-7000-8000-{number:012}'::uuid"
    if kind.lower() == "text":
        return f"'00000000-0000-7000-8000-{number:012}'"
    if kind == "timestamp with time zone":
        return f"now() + interval '{number} seconds'"
    return str(1_000_000 + number)
