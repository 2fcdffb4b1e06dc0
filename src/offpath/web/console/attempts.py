"""Attempts to sign in with a wrong token: so many an address and minute, and no more."""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Callable
from typing import Final

MOST: Final = 5
WITHIN: Final = 60.0
"""Seconds."""
_ADDRESSES: Final = 10_000
"""Addresses that are remembered; with more the oldest are forgotten."""


class Attempts:
    """Wrong attempts by address."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wrong: dict[str, deque[float]] = {}

    def wait_for(self, address: str) -> float | None:
        """Seconds until an address may try again; None: it may now."""
        times = self._recent(_source(address))
        return None if len(times) < MOST else times[0] + WITHIN - self._monotonic()

    def wrong(self, address: str) -> None:
        """Count one that was wrong."""
        source = _source(address)
        times = self._recent(source)
        times.append(self._monotonic())
        self._wrong.pop(source, None)  # the newest last
        self._wrong[source] = times
        if len(self._wrong) > _ADDRESSES:
            del self._wrong[next(iter(self._wrong))]

    def _recent(self, source: str) -> deque[float]:
        times = self._wrong.get(source, deque())
        while times and times[0] <= self._monotonic() - WITHIN:
            times.popleft()
        return times


def _source(address: str) -> str:
    """The network that an address stands for: one machine may have all of its /64 of IPv6."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return address
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    return str(ipaddress.ip_network((int(known), _NETWORK), strict=False))


_NETWORK: Final = 64
"""Bits of the network that one machine has of IPv6."""
