"""The addresses that webhooks may go to: public ones over https, checked again at the moment of
connecting.

A name is checked when an endpoint is added, but a name can lead elsewhere later, and an address can
be written in many ways. So the last word is at the socket: what is about to be connected to.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.events.webhook.networks import Address, is_public

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
PORTS: Final = frozenset({443, 80, 8443, 8080})
_LONGEST_URL = 2_000
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_NUMBER: Final = re.compile(r"[0-9a-fA-FxX.]+")
_ENDS_IN_NUMBER: Final = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)$")


class Forbidden(InvalidArgument):
    """An endpoint's address is not one that webhooks may be posted to."""

    code = "forbidden_address"


class Guard(Struct, frozen=True, kw_only=True):
    """The rules of what is allowed. The default suits the open internet."""

    private: tuple[str, ...] = ()
    """Networks (CIDR) that are allowed although they are not public: your own, by choice."""
    plain_http: bool = False
    """True if http:// is allowed."""
    ports: frozenset[int] | None = None
    """The ports that are allowed; None means 443, 80, 8443 and 8080, and any on ``private``."""

    def check_url(self, url: object) -> SplitResult:
        """The parts of a URL that may be posted to, as far as its text tells.

        Raises :class:`Forbidden`, and ``InvalidArgument`` for what is not a URL.
        """
        parts = _parsed(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and self.plain_http):
            raise Forbidden("a webhook URL begins with https:// (http:// only where it is allowed)")
        if parts.username is not None or parts.password is not None:
            raise Forbidden("a webhook URL must not carry a user or password: use headers")
        written = parts.hostname or ""
        host = _folded(written).removesuffix(".")
        literal = _literal(host)
        if literal is not None:
            self.check_address(str(literal), _port(parts))
        if _is_odd(written, host, literal):
            raise Forbidden(
                "a webhook URL names a host, or an address in plain digits: https://203.0.113.7/"
            )
        if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
            raise Forbidden(f"{host} is a name inside of a machine or network")
        return parts

    def check_address(self, host: str, port: int) -> None:
        """Refuse an address that may not be connected to. Raises :class:`Forbidden`."""
        address = _unwrapped(ipaddress.ip_address(host.partition("%")[0]))
        if any(address in network for network in self._networks(address)):
            return
        if not is_public(address):
            raise Forbidden(f"{address} is not a public address: webhooks are not posted there")
        if port not in (PORTS if self.ports is None else self.ports):
            raise Forbidden(f"port {port} is not one that webhooks are posted to")

    def socket_factory(self, info: tuple[Any, ...]) -> socket.socket:
        """For ``aiohttp.TCPConnector``: sees the address that is really dialled."""
        family, kind, protocol, _, address = info
        self.check_address(str(address[0]), int(address[1]))
        return socket.socket(family=family, type=kind, proto=protocol)

    def _networks(self, address: Address) -> Iterable[Network]:
        networks = (ipaddress.ip_network(each) for each in self.private)
        return (network for network in networks if network.version == address.version)


def checked_networks(networks: Iterable[str]) -> tuple[str, ...]:
    """Networks in CIDR notation. Raises ``InvalidArgument``."""
    try:
        return tuple(str(ipaddress.ip_network(each)) for each in networks)
    except ValueError as error:
        raise InvalidArgument(f"an allowed network is written like 10.0.0.0/8: {error}") from error


def _parsed(url: object) -> SplitResult:
    if not isinstance(url, str) or not 0 < len(url) <= _LONGEST_URL:
        raise InvalidArgument(f"a webhook URL is a text of at most {_LONGEST_URL} characters")
    if not url.isprintable() or " " in url or "\\" in url:
        raise InvalidArgument("a webhook URL has no blanks, backslashes or control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidArgument("the webhook URL is malformed") from None
    if not parts.hostname or port == 0:
        raise InvalidArgument("a webhook URL names a host: https://example.com/hooks")
    return parts


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _folded(host: str) -> str:
    """A host as what connects reads it: other scripts' digits, letters and dots made plain.

    It is for comparing only; marks that are not seen are dropped from it.
    """
    plain = unicodedata.normalize("NFKC", host).replace("\N{IDEOGRAPHIC FULL STOP}", ".").lower()
    return "".join(each for each in plain if unicodedata.category(each) != "Mn")


def _is_odd(written: str, host: str, literal: Address | None) -> bool:
    """True if a host is an address in foreign digits, or ends in a number and is not an address.

    No name ends in a number, so such a host could only be refused at each post.
    """
    if literal is not None:
        return not written.isascii()
    return "%" in host or _ENDS_IN_NUMBER.search(host) is not None


def _literal(host: str) -> Address | None:
    """The address that a host is, in whichever way it is written; None for a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    if not _NUMBER.fullmatch(host):
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))  # 127.1, 0x7f.1, 2130706433
    except OSError:
        return None


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that carries one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address.teredo is not None:
            inner = address.teredo[1]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        return inner or address
    return address
