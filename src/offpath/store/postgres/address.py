"""The place of the database: a URL taken apart, with our own parameters and safe defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from offpath.errors import InvalidArgument
from offpath.model.schema_url import DEFAULT_SCHEMA, PARAMETER, checked_schema
from offpath.store.wakes import is_bus

APPLICATION: Final = "offpath"
"""The name under which the server lists our sessions, unless the URL gives another one."""
_DEFAULTS: Final = {
    # Values are sent as UTF-8, whatever PGCLIENTENCODING or the role's settings say.
    "client_encoding": "utf8",
    # Without it libpq waits for a host that does not answer as long as the system does.
    "connect_timeout": "5",
    # A host that is gone is noticed after about eleven seconds, not after two hours.
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "11000",
}
_MOST_PORT: Final = 65_535
_DIRECT: Final = "offpath_direct"
_NOTIFY: Final = "offpath_notify_url"
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Address:
    """A database to talk to. Never printed with its password."""

    conninfo: str = field(repr=False)
    """The address that psycopg connects to."""
    notify: str = field(repr=False)
    """The address of the listening connection; the same unless a direct URL was given."""
    bus: str | None = field(repr=False)
    """The address of what carries wake-ups in the server's place, if one was given."""
    direct: bool | None
    """True if no pooler is in between, as the URL says; None: the URL does not say, so it is found
    out.
    """
    schema: str
    """The schema of our tables."""
    shown: str
    """For messages: without the password."""

    @property
    def database(self) -> str:
        """The name of the database, where the URL says it."""
        return str(conninfo_to_dict(self.conninfo).get("dbname") or "")


def parse_address(
    url: str, *, notify_url: str | None = None, application_name: str = APPLICATION
) -> Address:
    """Take ``url`` apart; raises ``InvalidArgument`` for what is not a Postgres URL.

    ``?offpath_direct=1`` says that the connection does not go through a pooler, ``=0`` that it may,
    and ``?offpath_notify_url=`` (or ``notify_url``) names a direct way for LISTEN and presence, or
    a Redis or NATS server that carries wake-ups. ``?offpath_schema=`` names the schema.
    """
    plain, own = _split(url)
    notify = notify_url or own.get(_NOTIFY)
    bus = notify if notify is not None and is_bus(notify) else None
    if bus is not None:
        notify = None
    return Address(
        bus=bus,
        conninfo=_conninfo(plain, application_name),
        notify=_conninfo(_split(notify)[0] if notify else plain, application_name),
        direct=_flag(own[_DIRECT]) if _DIRECT in own else None,
        schema=checked_schema(own.get(PARAMETER, DEFAULT_SCHEMA)),
        shown=_shown(plain),
    )


def _split(url: str) -> tuple[str, dict[str, str]]:
    """The URL without our own parameters, and these."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url, {}
    if scheme.partition("+")[0] not in {"postgres", "postgresql"}:
        raise InvalidArgument(f"not a Postgres URL: it starts with {scheme}://, not postgresql://")
    parts = _parts(f"postgresql://{rest}")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in pairs if name.startswith("offpath_")}
    # A parameter of ours never reaches libpq, so one that is misspelt would be dropped in silence.
    _refuse_unknown(own)
    # libpq does not take "+" for a blank, as forms do
    query = urlencode([pair for pair in pairs if pair[0] not in own], quote_via=quote)
    # urlunsplit would drop the empty authority of a socket URL, which libpq insists on
    tail = f"?{query}" if query else ""
    return f"postgresql://{parts.netloc}{parts.path}{tail}", own


def _parts(url: str) -> SplitResult:
    """The parts of a URL, unless a password's bare / or # has cut it in the wrong place."""
    try:
        parts = urlsplit(url)
    except ValueError:  # a bare [ or ]; the text repeats it
        raise InvalidArgument(_UNESCAPED) from None
    if "@" in parts.path or parts.fragment:
        raise InvalidArgument(_UNESCAPED)
    return parts


_UNESCAPED: Final = (
    "not a Postgres URL: in the password and elsewhere, "
    "write / as %2F, @ as %40, # as %23, [ as %5B and ] as %5D"
)


def _refuse_unknown(own: dict[str, str]) -> None:
    unknown = sorted(own.keys() - {_DIRECT, _NOTIFY, PARAMETER})
    if unknown:
        raise InvalidArgument(
            f"unknown parameter {unknown[0]} in the URL: there are {_DIRECT}, {_NOTIFY} and "
            f"{PARAMETER}"
        )


def _flag(text: str) -> bool:
    lowered = text.lower()
    if lowered not in _TRUE | _FALSE:
        raise InvalidArgument(f"{_DIRECT} must be 1 or 0")
    return lowered in _TRUE


def _conninfo(url: str, application_name: str) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # psycopg's text repeats the URL, password and all
        raise InvalidArgument(
            "not a Postgres URL: write postgresql://user:password@host:5432/database"
        ) from None
    _require_ports(str(given.get("port") or ""))
    # What the URL gives stands last, so that it wins over our defaults.
    return make_conninfo("", **{"application_name": application_name, **_DEFAULTS, **given})


def _require_ports(ports: str) -> None:
    """Refuse here what would be an error of the driver, after all its attempts to connect."""
    for port in filter(None, ports.split(",")):
        # Cut, since Python refuses to read a number of thousands of digits.
        if not (port.isascii() and port.isdigit() and 1 <= int(port[:9]) <= _MOST_PORT):
            raise InvalidArgument(
                f"the port of a Postgres URL is a number from 1 to {_MOST_PORT}, not {port[:40]!r}"
            )


def _shown(url: str) -> str:
    if "://" not in url:
        given = conninfo_to_dict(url)
        return f"postgresql://{given.get('host', '')}/{given.get('dbname', '')}"
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return urlunsplit(("postgresql", f"{name}{at}{host}", parts.path, "", ""))
