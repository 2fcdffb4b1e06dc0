"""Wake-ups over a line of their own, for stores whose database cannot tell of changes itself.

Everything also polls, so a lost wake-up costs a second and nothing else.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from offpath.errors import MissingExtra
from offpath.store.wakes.port import NotSent, WakeBus, WakeLine

SCHEMES: Final = {
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys"), "redis"),
    **dict.fromkeys(("nats", "tls"), "nats"),
}
"""The schemes of URLs that name a bus, each with the extra that has its client."""


def is_bus(url: str) -> bool:
    """True if a URL names a bus."""
    return urlsplit(url).scheme in SCHEMES


def bus_of(url: str, channel: str) -> WakeBus:
    """The bus that a URL names, not connected yet. Raises ``MissingExtra``."""
    extra = SCHEMES[urlsplit(url).scheme]
    try:
        if extra == "redis":
            from offpath.store.wakes.redis_bus import RedisBus

            return RedisBus(url, channel)
        from offpath.store.wakes.nats_bus import NatsBus

        return NatsBus(url, channel)
    except ImportError as error:
        # Something that the client itself needs is missing: the extra would not bring it.
        if (error.name or "").partition(".")[0] != extra:
            raise
        raise MissingExtra(f"wake-ups over {extra} need its client", extra) from error


__all__ = ["NotSent", "WakeBus", "WakeLine", "bus_of", "is_bus"]
