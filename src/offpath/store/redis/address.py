"""The address of a Redis or Valkey server: ``redis://``, ``rediss://`` or ``unix://``."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from offpath.errors import ConfigurationError
from offpath.model.redact import redact_url
from offpath.store.capabilities import Durability

SCHEMES: Final = ("redis", "rediss", "valkey", "valkeys", "unix")
_DRIVERS: Final = {"valkey": "redis", "valkeys": "rediss"}
_PARAMETERS: Final = "durability, prefix and wait"


class ServerAddress(Struct, frozen=True, kw_only=True):
    """The parts of a URL that are ours, and the URL without them."""

    url: str
    """For the driver."""
    prefix: str = "offpath"
    """The tag under which all keys lie: two services with one each share a server unseen."""
    wait: int = 0
    """The replicas that a write waits for."""
    durability: Durability | None = None
    """The durability that whoever wrote the URL accepts; None asks for one that survives."""


def parsed(url: str) -> ServerAddress:
    """The address that a URL gives. Raises ``ConfigurationError``."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ConfigurationError(f"not the URL of a Redis server: {redact_url(url)}")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix = given.pop("prefix", "offpath")
    wait, durability = given.pop("wait", "0"), given.pop("durability", None)
    # The prefix stands in braces as the tag of all keys, and a brace in it would end that early.
    if not prefix or any(one in "{}" or not one.isprintable() for one in prefix):
        raise ConfigurationError(f"prefix= is a name without braces, not {prefix!r}")
    if not wait.isdigit():
        raise ConfigurationError(f"wait= is the number of replicas that confirm, not {wait!r}")
    if not given.keys() <= {"db", "socket_timeout", "ssl_cert_reqs", "ssl_ca_certs"}:
        unknown = ", ".join(sorted(given))
        raise ConfigurationError(f"unknown in a Redis URL: {unknown}; ours are {_PARAMETERS}")
    scheme = _DRIVERS.get(parts.scheme, parts.scheme)
    plain = urlunsplit(parts._replace(scheme=scheme, query=urlencode(given)))
    return ServerAddress(
        url=plain, prefix=prefix, wait=int(wait), durability=_durability(durability)
    )


def _durability(given: str | None) -> Durability | None:
    if given is None:
        return None
    try:
        return Durability(given)
    except ValueError:
        known = ", ".join(Durability)
        raise ConfigurationError(f"durability= is one of {known}, not {given!r}") from None
