"""The database of an alias: where our rows are, as Django reaches it and as a URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from django.db import DEFAULT_DB_ALIAS, connections

from offpath.errors import ConfigurationError

if TYPE_CHECKING:
    from offpath.store.within import Dialect

MODES: Final = ("transaction", "on_commit", "now")
"""The ways to enqueue."""
OPTIONS: Final = ("app", "database", "enqueue", "imports", "settings", "url")
"""The options that a backend of ours has in ``TASKS``."""
_DIALECTS: Final[dict[str, Dialect]] = {"postgresql": "postgres", "sqlite": "sqlite"}
_NOT_THE_SERVERS: Final = frozenset(
    {"pool", "isolation_level", "server_side_binding", "cursor_factory", "assume_role", "context"}
)
"""Options that Django keeps to itself; the others are libpq's."""


def alias_of(options: dict[str, Any]) -> str:
    """The alias that a backend's options name."""
    return str(options.get("database", DEFAULT_DB_ALIAS))


def dialect_of(alias: str) -> Dialect:
    """The kind of database behind an alias. Raises ``ConfigurationError``."""
    vendor = connections[alias].vendor
    if vendor not in _DIALECTS:
        raise ConfigurationError(
            f"the database {alias!r} is {vendor}, and offpath keeps jobs in Postgres or SQLite: "
            "name another alias, or a url"
        )
    return _DIALECTS[vendor]


def url_of(alias: str) -> str:
    """The URL of an alias, from what Django connects with. Raises ``ConfigurationError``."""
    settings = connections[alias].settings_dict
    if dialect_of(alias) == "sqlite":
        name = str(settings["NAME"])
        # one in memory, as tests have, is Django's own: no worker could see it
        return "memory://" if ":memory:" in name or "mode=memory" in name else _file_url(name)
    return _server_url(settings)


def _file_url(name: str) -> str:
    return f"sqlite:///{Path(name).absolute()}"


def _server_url(settings: dict[str, Any]) -> str:
    given = {
        name: value
        for name, value in (settings.get("OPTIONS") or {}).items()
        if name not in _NOT_THE_SERVERS and isinstance(value, str | int)
    }
    user = quote(settings.get("USER") or "", safe="")
    if password := settings.get("PASSWORD"):
        user += f":{quote(str(password), safe='')}"
    host, port = str(settings.get("HOST") or ""), settings.get("PORT")
    if host.startswith("/"):  # a folder of sockets
        given["host"], host = host, ""
    place = f"{user}@" * bool(user) + host + f":{port}" * bool(port)
    query = f"?{urlencode(given)}" if given else ""
    return f"postgresql://{place}/{quote(str(settings.get('NAME') or ''), safe='')}{query}"
