"""Shadows: functions, operators, types and views that raise, named as those that our SQL uses.

Each has the very signature of the one in ``pg_catalog``, in a schema that stands before it in the
path. So whatever looks a name up in a path that is not ours finds the shadow, and fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import offpath

SCHEMA: Final = "shadow"
PATH: Final = f"{SCHEMA}, pg_catalog, public"

_OURS: Final = Path(offpath.__file__).parent / "store" / "postgres"
_QUOTED = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_CALLED = re.compile(r"(?<![.\w])([a-z_][a-z0-9_]*)\s*\(")
_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|?]+")
_CAST = re.compile(r"::([a-z_][a-z0-9_]*)")
_VIEW = re.compile(r"\b(?:from|join)\s+(pg_[a-z_]+)")
_UNWRITTEN: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "~~", "!~~"})
"""Operators that IN, CASE, BETWEEN, LIKE and IS DISTINCT FROM look up without being written."""

_FUNCTIONS = """
    select p.proname, pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid)
    from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and p.proname = any (%s)
        and p.prorettype not in ('internal'::regtype, 'trigger'::regtype)
"""
_OPERATORS = """
    select o.oprname, nullif(o.oprleft, 0)::regtype::text, o.oprright::regtype::text,
        o.oprresult::regtype::text
    from pg_operator o
    where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprname = any (%s)
"""
_TYPES = """
    select t.typname from pg_type t
    where t.typnamespace = 'pg_catalog'::regnamespace and t.typname = any (%s) and t.typtype = 'b'
"""


def used() -> dict[str, set[str]]:
    """Names of the server's own that our SQL calls, casts to and reads, by kind."""
    texts = [path.read_text("utf-8") for path in sorted(_OURS.rglob("*.sql"))]
    # a function's body is text in dollars, which stays: only comments and literals are left out
    bare = _QUOTED.sub(" ", "\n".join(texts)).replace("pg_catalog.", "")
    return {
        "functions": set(_CALLED.findall(bare)),
        "operators": set(_OPERATOR.findall(bare)) | _UNWRITTEN,
        "types": set(_CAST.findall(bare)),
        "views": set(_VIEW.findall(bare)) - {"pg_backend_pid"},
    }


def cast(connection: Any) -> int:
    """Make all shadows in one transaction of a superuser; returns how many there are."""
    names = used()
    statements = list(_statements(connection, {kind: sorted(n) for kind, n in names.items()}))
    connection.execute("set local search_path = pg_catalog")
    connection.execute(f"create schema {SCHEMA}")
    connection.execute(f"grant usage on schema {SCHEMA} to public")
    connection.execute(";".join(statements))
    return len(statements)


def _statements(connection: Any, names: dict[str, list[str]]) -> Iterable[str]:
    for name, arguments, result in connection.execute(_FUNCTIONS, [names["functions"]]):
        yield _raising(name, arguments, result)
    operators = connection.execute(_OPERATORS, [names["operators"]])
    for number, (name, left, right, result) in enumerate(operators):
        sides = [side for side in (left, right) if side]
        yield _raising(f"operator_{number}", ", ".join(sides), result)
        before = f"leftarg = {left}, " if left else ""
        yield (
            f"create operator {SCHEMA}.{name} "
            f"({before}rightarg = {right}, function = {SCHEMA}.operator_{number})"
        )
    for (name,) in connection.execute(_TYPES, [names["types"]]):
        yield f"create domain {SCHEMA}.{name} as pg_catalog.{name} check (false)"
    for name in names["views"]:
        yield f"create view {SCHEMA}.{name} as select from pg_catalog.{name}"


def _raising(name: str, arguments: str, result: str) -> str:
    """A function of the server's own that refuses to be called, whatever its arguments are."""
    return (
        f'create function {SCHEMA}."{name}" ({arguments}) returns {result} '
        "language internal as 'any_in'"
    )
