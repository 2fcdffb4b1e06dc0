"""Brokers are connected to by address: the libraries look names up in the loop's default executor,
which handlers can fill. The name stays what a certificate is checked against.
"""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from offpath.runtime.resolver import Resolver

MOST = 4
"""Addresses of one name that are tried."""


def new_resolver() -> Resolver:
    """Threads of their own for the names of one dispatcher."""
    return Resolver(limit=4, name="offpath-broker-name")


def is_name(host: str | None) -> bool:
    """True for a host that must be looked up."""
    if not host:
        return False
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return True
    return False


async def addresses_of(resolver: Resolver, host: str, port: int) -> list[str]:
    """The addresses of a host, in the order of the system. Raises ``OSError``."""
    if not is_name(host):
        return [host]
    found = await resolver.resolve(host, port)
    return list(dict.fromkeys(str(one[4][0]) for one in found))[:MOST]


async def numbered(resolver: Resolver, url: str, port: int) -> list[str]:
    """The URL with each address of its host in the host's place. Raises ``OSError``."""
    parts = urlsplit(url)
    host = parts.hostname
    if host is None or not is_name(host):
        return [url]
    user, at, _ = parts.netloc.rpartition("@")
    given = parts.port or port
    return [
        parts._replace(netloc=f"{user}{at}{_bracketed(one)}:{given}").geturl()
        for one in await addresses_of(resolver, host, given)
    ]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def by_address(connection: type[Any], resolver: Resolver) -> type[Any]:
    """A class of Redis connections that looks the host up by ``resolver`` at each connect."""

    class ByAddress(connection):  # type: ignore[misc]  # only its library knows it
        _address = ""

        async def _connect(self) -> None:
            failure: OSError | None = None
            for address in await addresses_of(resolver, self.host, self.port):
                self._address = address
                try:
                    await super()._connect()
                except OSError as error:
                    failure = error
                else:
                    return
            raise failure or OSError(f"the name {self.host} has no address")

        def _connection_arguments(self) -> dict[str, Any]:
            arguments = {**super()._connection_arguments(), "host": self._address}
            if "ssl" in arguments:
                arguments.setdefault("server_hostname", self.host)
            return arguments

    return ByAddress


def named(connection: type[Any], name: str) -> type[Any]:
    """A class of RabbitMQ connections that checks certificates against ``name``."""

    class Named(connection):  # type: ignore[misc]  # as above
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - the library's
            super().__init__(*arguments, **options)
            self.kwargs["server_hostname"] = name

    return Named
