"""Time zones by their IANA names, the same ones on every machine."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from offpath.errors import InvalidArgument
from offpath.model import checks

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


@lru_cache(maxsize=1_000)
def zone_of(name: str) -> ZoneInfo:
    """The IANA zone of that name, or of that older name. Raises ``InvalidArgument`` for another.

    A machine's own files know more: ``localtime``, folders, other spellings of case, and zones with
    leap seconds. What they know differs, so the list that comes with offpath decides.
    """
    from zoneinfo import ZoneInfo

    checks.name(name, "zone")
    if name not in _names():
        raise unknown_zone(name)
    try:
        return ZoneInfo(name)
    except (OSError, LookupError, ValueError) as error:
        raise unknown_zone(name) from error


def unknown_zone(name: str) -> InvalidArgument:
    """There is no such zone."""
    return InvalidArgument(
        f"there is no time zone {name!r}: give an IANA name, as Europe/Berlin or UTC"
    )


@cache
def _names() -> frozenset[str]:
    """Every name in the data that offpath depends on, older ones too."""
    from importlib import resources  # loads much that only a schedule with a zone needs

    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())
