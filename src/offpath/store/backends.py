"""From a URL to a store. A backend and its driver are imported when a URL names them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from offpath.config import BACKENDS, normal_url
from offpath.errors import ConfigurationError, MissingExtra
from offpath.model.redact import redact_url
from offpath.model.schema_url import named_in, schema_of, without_schema

if TYPE_CHECKING:
    from offpath.config import Settings
    from offpath.runtime.clock import Clock
    from offpath.store.postgres import PostgresStore
    from offpath.store.protocol import Store

CALL_TIMEOUT = 5.0
"""Seconds that a call waits for each answer of a server, unless a setting says otherwise."""


def scheme_of(url: str) -> str:
    """``memory``, ``sqlite``, ``postgresql``, ``redis``, or that of a backend of another package.

    Raises ``ConfigurationError``.
    """
    scheme, separator, _ = normal_url(url).partition("://")
    return scheme if separator else "postgresql"  # libpq's own form has no scheme


def make_store(
    url: str, *, clock: Clock | None = None, call_timeout: float = CALL_TIMEOUT
) -> Store:
    """A store that is not open yet. ``clock`` replaces the store's own; None leaves it.
    ``call_timeout`` is how long a call waits for each answer of a server, in seconds.

    Raises ``ConfigurationError``, and ``MissingExtra`` when the driver is not installed.
    """
    match scheme_of(url):
        case "memory":
            from offpath.store.memory import MemoryStore

            return MemoryStore(clock)
        case "sqlite":
            from offpath.store.sqlite import SqliteStore

            plain = normal_url(url)
            return SqliteStore(sqlite_path(plain), clock=clock, schema=schema_of(plain))
        case "redis" | "rediss":
            return _redis(normal_url(url), clock, call_timeout)
        case "postgresql":
            from offpath.store.postgres import PostgresStore

            return PostgresStore(normal_url(url), clock=clock, call_timeout=call_timeout)
        case scheme:
            return _others(scheme, url, clock, call_timeout)


def _redis(url: str, clock: Clock | None, call_timeout: float) -> Store:
    try:
        from offpath.store.redis import RedisStore
    except ImportError as error:
        # Something that the client itself needs is missing: the extra would not bring it.
        if error.name != "redis":
            raise
        raise MissingExtra("a redis:// URL needs the client", "redis") from error
    return RedisStore(url, clock=clock, call_timeout=call_timeout)


def _others(scheme: str, url: str, clock: Clock | None, call_timeout: float) -> Store:
    """The store of another package. Raises ``ConfigurationError`` where it cannot be had."""
    from importlib.metadata import entry_points  # slow to load, and rarely needed

    (point,) = entry_points(group=BACKENDS, name=scheme)
    try:
        make = point.load()
        store: Store = make(url, clock=clock, call_timeout=call_timeout)
    except ImportError as error:
        raise ConfigurationError(f"the backend of {scheme}:// cannot be loaded: {error}") from error
    return store


# Few, since the workers need connections of the same server.
LOOKING_CONNECTIONS = 4
LOOKING_TIMEOUT = 2.0
"""Seconds that one who only looks waits for an answer."""


def looking_store(settings: Settings) -> Store:
    """A store for one who looks: few connections of its own, and little patience.

    Raises ``ConfigurationError`` for a store in memory, which has no second door.
    """
    match scheme_of(settings.url):
        case "memory":
            raise ConfigurationError("a store in memory is looked at through its own app only")
        case "sqlite":
            from offpath.store.sqlite import SqliteStore

            plain = normal_url(settings.url)
            return SqliteStore(
                sqlite_path(plain), schema=schema_of(plain), read_limit=LOOKING_TIMEOUT
            )
        case "postgresql":
            from offpath.store.postgres import PostgresStore

            return PostgresStore(
                normal_url(settings.url),
                pool_size=LOOKING_CONNECTIONS,
                call_timeout=LOOKING_TIMEOUT,
                application_name="offpath-dashboard",
                looks=True,
            )
        case _:
            return make_store(settings.url)


def refuse_unlooked(url: str) -> None:
    """Raise ``CapabilityMissing`` for a store that keeps nothing for a dashboard."""
    if scheme_of(url) in {"memory", "sqlite", "postgresql"}:
        return
    from offpath.store.capabilities import Profile
    from offpath.store.partial import require

    require(make_store(url).capabilities, Profile.OPERATING)


def sqlite_path(url: str) -> str:
    """The file of a SQLite URL: three slashes for a relative path, four for an absolute one."""
    parts = urlsplit(without_schema(url))
    path = unquote(parts.path)
    if parts.netloc:
        raise ConfigurationError(
            "a SQLite URL has three slashes before a relative path (sqlite:///work.db) "
            "and four before an absolute one (sqlite:////var/lib/work.db)"
        )
    if path in {"", "/", "/:memory:"}:
        raise ConfigurationError("a SQLite URL names a file; for a store in memory use memory://")
    if parts.query:
        raise ConfigurationError("a SQLite URL takes no parameter after `?` but offpath_schema")
    return path[1:]


def place_of(url: str) -> str:
    """The place of a URL's data, to be shown: an absolute path, or the URL without its password.

    A relative path leads elsewhere from another folder, which only the absolute one shows.
    """
    if scheme_of(url) == "sqlite":
        path = Path(sqlite_path(normal_url(url))).absolute()
        schema = named_in(url)
        return str(path) if schema is None else f"{path} (schema {schema})"
    return redact_url(url)


def backup(url: str, target: Path) -> int:
    """Copy the store's file whole, while it is in use; the bytes that the copy has.

    Raises ``ConfigurationError`` where the store is not a file, and ``StoreUnavailable``.
    """
    if scheme_of(url) != "sqlite":
        raise ConfigurationError(
            "only a SQLite file is copied by this command; back up Postgres by its own means: "
            "pg_dump, pg_basebackup, or what your host offers"
        )
    from offpath.store.sqlite.backup import backup as copied

    return copied(sqlite_path(normal_url(url)), target)


def roles_script(url: str) -> str:
    """SQL that makes the roles of a Postgres store. Raises ``ConfigurationError`` for others."""
    return _with_roles(url).roles_script()


async def grant_roles(url: str) -> None:
    """Make the roles of a Postgres store that is up to date, and grant what each may do.

    Raises ``ConfigurationError`` for other stores, and ``StoreError`` kinds.
    """
    await _with_roles(url).grant_roles()


def _with_roles(url: str) -> PostgresStore:
    if scheme_of(url) != "postgresql":
        raise ConfigurationError(
            "only a Postgres server has roles; who may use a SQLite file is told by its mode"
        )
    from offpath.store.postgres import PostgresStore

    return PostgresStore(normal_url(url))


class Backend:
    """Makes the store of one app, again after each close.

    A given store, and one in memory, stays the same: what it holds outlives its closing.
    """

    def __init__(
        self,
        url: str,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        call_timeout: float = CALL_TIMEOUT,
    ) -> None:
        self._url = url
        self._call_timeout = call_timeout
        self._clock = clock
        self._kept = store
        self.name = type(store).__name__ if store is not None else scheme_of(url)

    @classmethod
    def of(cls, settings: Settings, *, store: Store | None, clock: Clock | None) -> Backend:
        """The backend that the settings name."""
        timeout = settings.store_timeout
        return cls(settings.url, store=store, clock=clock, call_timeout=timeout)

    def make(self) -> Store:
        """A store that is not open."""
        if self._kept is not None:
            return self._kept
        store = make_store(self._url, clock=self._clock, call_timeout=self._call_timeout)
        if not store.capabilities.durable:
            self._kept = store
        return store
