"""From a server's name to its addresses, before the driver is asked to connect.

The driver would look the name up in the event loop's default executor, which handlers can fill:
then a worker whose connections are cut could not come back. It is told the addresses beside the
name, which certificates are still compared with.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from offpath.runtime.resolver import NameNotFound, Resolver

_RESOLVER: Final = Resolver(limit=16, patience=5.0, name="offpath-postgres-name")
_MANY_TIMEOUT: Final = "2"
"""Seconds for each address where there are several: one that is dead must leave time for the next.
"""
_worked: dict[str, str] = {}
"""Name → the address that was connected to last: it is tried first."""


async def with_addresses(conninfo: str, resolver: Resolver = _RESOLVER) -> str:
    """``conninfo`` with ``hostaddr`` for each name in it.

    Raises ``psycopg.OperationalError`` when none of its names is found.
    """
    given = conninfo_to_dict(conninfo)
    host = str(given.get("host") or os.environ.get("PGHOST") or "")
    # What names addresses already is left as it is, as is a socket of this machine.
    if not host or given.get("hostaddr") or os.environ.get("PGHOSTADDR"):
        return conninfo
    hosts = host.split(",")
    if not any(map(_is_name, hosts)):
        return conninfo
    ports = str(given.get("port") or os.environ.get("PGPORT") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    found: list[tuple[str, str, str]] = []
    fault: NameNotFound | None = None
    for one, port in zip(hosts, ports, strict=False):
        try:
            found += [(one, address, port) for address in await _addresses(one, port, resolver)]
        except NameNotFound as error:
            fault = error
    # Only where no name is found: one dead name must not keep us from the other hosts.
    if not found:
        raise psycopg.OperationalError(str(fault)) from fault
    return make_conninfo(conninfo, **_params(found, given))


def connected_at(host: str, address: str) -> None:
    """Keep the address of a host that was reached: it is tried first from now on."""
    if address:
        _worked[host] = address


def _params(found: list[tuple[str, str, str]], given: dict[str, Any]) -> dict[str, str]:
    params = {
        "host": ",".join(host for host, _, _ in found),
        "hostaddr": ",".join(address for _, address, _ in found),
        "port": ",".join(port for _, _, port in found),
    }
    if len(found) > 1 and float(given.get("connect_timeout") or 5) > float(_MANY_TIMEOUT):
        params["connect_timeout"] = _MANY_TIMEOUT
    return params


async def _addresses(host: str, port: str, resolver: Resolver) -> list[str]:
    """The addresses of one host, the one that worked last first; none for a socket's folder."""
    if not _is_name(host):
        return [host if _is_address(host) else ""]
    answers = await resolver.resolve(host, int(port or 5432))
    addresses = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    return sorted(addresses, key=lambda one: one != _worked.get(host))


def _is_name(host: str) -> bool:
    # A socket's folder has no address, and neither has an abstract socket, written with @.
    return bool(host) and not host.startswith(("/", "@")) and not _is_address(host)


def _is_address(host: str) -> bool:
    try:
        # Behind a % an address of IPv6 may name the interface to use.
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
