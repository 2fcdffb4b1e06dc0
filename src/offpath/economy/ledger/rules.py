"""The rules that operations are decided by: settings and rates, in the units of the books."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from offpath.economy.ledger.settings import EconomySettings
from offpath.model.ledger.rates import Rates

NewId = Callable[[], str]
RETURNED: Final = "payout_return"
"""The beginning of the source of credits that a failed payout gave back; see
``operations.maturity``.
"""
_SECOND: Final = 1_000


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

    def horizon(self, source: str | None) -> int:
        """The wait of credits, by their source."""
        known = self.horizons
        return known.get(source or "default", known["default"])


def rules_of(settings: EconomySettings, rates: Rates) -> Rules:
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
    )


def millis(seconds: float) -> int:
    """Seconds as whole milliseconds."""
    return round(seconds * _SECOND)
