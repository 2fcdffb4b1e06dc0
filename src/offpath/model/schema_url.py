"""The part of a database that a store has to itself, as a URL names it.

On Postgres it is a schema, on SQLite the beginning of the names of tables: ``offpath`` unless
``?offpath_schema=`` says otherwise. So two services share a database and see nothing of each other.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl

from offpath.errors import ConfigurationError

PARAMETER: Final = "offpath_schema"
DEFAULT_SCHEMA: Final = "offpath"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_TAKEN: Final = re.compile(r"pg_.*|sqlite_.*|information_schema|public")
"""Names of the databases themselves, and the schema in which other programs make their tables."""
_KINDS: Final = frozenset({"postgresql", "postgres", "sqlite", "sqlite3"})


def named_in(url: str) -> str | None:
    """The schema that a URL names. Raises ``ConfigurationError`` for two of them."""
    _, _, query = url.partition("?")
    names = {value for name, value in parse_qsl(query, keep_blank_values=True) if name == PARAMETER}
    if len(names) > 1:
        raise ConfigurationError(f"the URL names two schemas: {' and '.join(sorted(names))}")
    return next(iter(names), None)


def schema_of(url: str) -> str:
    """The schema of a URL, ``offpath`` where it names none. Raises ``ConfigurationError``."""
    return checked_schema(named_in(url) or DEFAULT_SCHEMA)


def checked_schema(name: str) -> str:
    """A name that is a plain lower-case identifier. Raises ``ConfigurationError``."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"the schema {name!r:.60} must be lower-case letters, digits and underscores, at most "
            "40, the first no digit"
        )
    if _TAKEN.fullmatch(name):
        raise ConfigurationError(
            f"the schema {name!r} is not one to have for itself: name another, as 'shop'"
        )
    return name


def in_schema_of(url: str, schema: str) -> str:
    """A URL that names this schema; a store in memory has itself to itself. Raises
    ``ConfigurationError`` where it names another one, or where its kind of store has none.
    """
    wanted = checked_schema(schema)
    kind = url.partition("://")[0].partition("+")[0].lower()
    if kind == "memory":
        return url
    if kind not in _KINDS:
        raise ConfigurationError("a schema is for Postgres and SQLite: leave it out for this URL")
    known = named_in(url)
    if known == wanted or (known is None and wanted == DEFAULT_SCHEMA):
        return url
    if known is not None:
        raise ConfigurationError(f"the URL names the schema {known}, the setting names {wanted}")
    return f"{url}{'&' if '?' in url else '?'}{PARAMETER}={wanted}"


def without_schema(url: str) -> str:
    """A URL without our parameter, for whoever else takes it."""
    place, mark, query = url.partition("?")
    kept = [one for one in query.split("&") if one.partition("=")[0] != PARAMETER]
    return f"{place}{mark}{'&'.join(kept)}" if any(kept) else place
