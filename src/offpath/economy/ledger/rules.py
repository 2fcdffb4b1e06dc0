"""The rules that operations are decided by: settings and rates, in the units of the books."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Final

from msgspec import Struct

from offpath.economy.ledger.settings import EconomySettings
from offpath.errors import InvalidArgument
from offpath.model.ledger.rates import Rates

NewId = Callable[[], str]
RETURNED: Final = "payout_return"
"""The beginning of the source of credits that a failed payout gave back; see
``operations.maturity``.
"""
_SECOND: Final = 1_000


ZoneOf = Callable[[str], tzinfo]
"""The zone of an IANA name. Raises ``InvalidArgument`` for another."""


def utc_alone(name: str) -> tzinfo:
    """The zone of this name where nobody has given others: UTC."""
    if name == "UTC":
        return UTC
    raise InvalidArgument(f"there is no time zone {name!r} here")


class Rules(Struct, frozen=True, kw_only=True):
    """The rules of decisions. Durations are milliseconds; made by :func:`rules_of`."""

    settings: EconomySettings
    rates: Rates
    horizons: dict[str, int]
    """By source: how long credits wait before they can be used."""
    longest: int
    """The longest of them."""
    window: int
    """Of velocity."""
    inflow: int
    outflow: int
    zone_of: ZoneOf = utc_alone
    """The zones of subscriptions by the calendar; they are read from files, so they are given."""

    def horizon(self, source: str | None) -> int:
        """The wait of credits, by their source."""
        known = self.horizons
        return known.get(source or "default", known["default"])


def rules_of(settings: EconomySettings, rates: Rates, zone_of: ZoneOf = utc_alone) -> Rules:
    """The rules that these settings and rates make."""
    card = settings.maturity_card
    given = {
        "card": card,
        "crypto": settings.maturity_crypto,
        "steam": settings.maturity_steam,
        "meta": settings.maturity_meta,
        "default": settings.maturity_default,
    }
    horizons = {name: millis(card if one is None else one) for name, one in given.items()}
    limit = settings.velocity_limit_minor
    return Rules(
        settings=settings,
        rates=rates,
        horizons=horizons,
        longest=max(horizons.values()),
        window=millis(settings.velocity_window),
        inflow=settings.velocity_inflow_limit_minor or limit,
        outflow=settings.velocity_outflow_limit_minor or limit,
        zone_of=zone_of,
    )


def millis(seconds: float) -> int:
    """Seconds as whole milliseconds."""
    return round(seconds * _SECOND)
