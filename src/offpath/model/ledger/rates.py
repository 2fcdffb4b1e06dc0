"""Rates and rounding: exact pairs of whole numbers, and the one rounding that each place names."""

from __future__ import annotations

from math import gcd
from typing import Final

from msgspec import Struct

from offpath.model.ledger.faults import EconomyConfigInvalid
from offpath.model.ledger.money import MINOR, checked

BPS: Final = 10_000
"""Basis points of the whole."""
FINEST: Final = 18
"""The most decimals of a rate."""


class Rate(Struct, frozen=True, kw_only=True):
    """Dollars for a credit: ``value / 10**scale``. ``id`` names it in what is sealed.

    Raises ``EconomyConfigInvalid`` for what is not an exact rate above zero.
    """

    value: int
    scale: int
    id: str

    def __post_init__(self) -> None:
        """Refuse floats, zero and what is below it."""
        if type(self.value) is not int or self.value <= 0:
            raise EconomyConfigInvalid(
                f"the rate {self.id} must be a positive whole number: {self.value!r}"
            )
        if type(self.scale) is not int or not 0 <= self.scale <= FINEST:
            raise EconomyConfigInvalid(
                f"the scale of the rate {self.id} must be 0 to {FINEST}: {self.scale!r}"
            )

    def floor(self, credit_minor: int) -> int:
        """USD minor units for credits, rounded down (also below zero)."""
        return checked(credit_minor * self.value // 10**self.scale)

    def ceil(self, credit_minor: int) -> int:
        """USD minor units for credits, rounded up."""
        return checked(-(-credit_minor * self.value // 10**self.scale))

    def credits_covered(self, usd_minor: int) -> int:
        """The most credit minor units that these dollars pay for, rounded down."""
        return checked(usd_minor * 10**self.scale // self.value)

    @property
    def step(self) -> int:
        """The fewest credit minor units that pay whole cents exactly: all such amounts are
        multiples of it.
        """
        whole: int = 10**self.scale
        return whole // gcd(whole, self.value)

    def __le__(self, other: Rate) -> bool:
        """Compare exactly, across scales."""
        return bool(self.value * 10**other.scale <= other.value * 10**self.scale)


def rate(purpose: str, value: int, scale: int) -> Rate:
    """A rate with its usual id, ``par:CREDIT->USD:5/3``. Raises ``EconomyConfigInvalid``."""
    return Rate(value=value, scale=scale, id=f"{purpose}:CREDIT->USD:{value}/{scale}")


class Rates(Struct, frozen=True, kw_only=True):
    """The rates of a credit: its cost, what backs it, and what a seller gets: ``buy >= par >=
    payout``.

    Raises ``EconomyConfigInvalid`` when they are in another order: the platform would lose on each
    credit.
    """

    buy: Rate = rate("buy", 8333, 6)
    par: Rate = rate("par", 5, 3)
    payout: Rate = rate("payout", 5, 3)

    def __post_init__(self) -> None:
        """Refuse an order in which money leaks."""
        if not (self.payout <= self.par and self.par <= self.buy):
            raise EconomyConfigInvalid(
                "rates must be buy >= par >= payout, not "
                f"{self.buy.id}, {self.par.id}, {self.payout.id}"
            )


def fee_of(price: int, bps: int) -> int:
    """The platform's part of a price in minor units: up to the next whole credit, at most all."""
    whole = -(-price * bps // (BPS * MINOR))
    return min(whole * MINOR, price)


def share_of(part: int, bps: int) -> int:
    """A recipient's share of a part, rounded down; what is left over stays with the platform."""
    return part * bps // BPS
