"""The addresses of the public internet, told from those of machines, sites and documentation.

From the registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890 and what updates it):
https://www.iana.org/assignments/iana-ipv4-special-registry and
https://www.iana.org/assignments/iana-ipv6-special-registry. Python's own lists differ between its
releases (3.11.7 takes most of 192.0.0.0/24 for public), so these are ours, and stricter: what no
receiver of webhooks can have is not public either.
"""

from __future__ import annotations

import ipaddress
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_IPV4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by a carrier's customers
            "127.0.0.0/8",  # this machine
            "169.254.0.0/16",  # this link, and the metadata of clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays from IPv6, given up
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # measuring of devices
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # to many at once
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_IPV6_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All that is given out for the internet; what lies outside is local, reserved or to many."""
_IPV6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments, tunnels among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # an IPv4 address inside, which is judged instead
            "3fff::/20",  # documentation
        ),
    )
)


def is_public(address: Address) -> bool:
    """True if a machine of the open internet can have this address."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _IPV4)
    return address in _IPV6_UNICAST and not any(address in network for network in _IPV6)
