"""Calculators of settlement runs: rebate, cashback and lossback, in whole minor units.

There is no float anywhere. A share is an exact pair of integers, and what is left of a division is
dropped (rounded down, towards the house): a record split into parts is never credited more than
the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model import checks

if TYPE_CHECKING:
    from fractions import Fraction

MAX_AMOUNT = 2**63 - 1
"""The largest amount, in minor units: what 64 bits with a sign hold."""


class Share(Struct, frozen=True):
    """An exact share from 0 to 1: ``Share(1, 40)`` is 2.5 %."""

    numerator: int
    denominator: int

    def __post_init__(self) -> None:
        """Refuse what is not a share; a rate over 1 is a mistake in the unit."""
        checks.integer(self.denominator, "a share's denominator", least=1, most=MAX_AMOUNT)
        checks.integer(self.numerator, "a share's numerator", least=0, most=self.denominator)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The share written as ``2.5%``, ``0.025`` or ``1/40``; exact. Raises InvalidArgument."""
        wrong = InvalidArgument(f"{text!r:.80} is not a share: write '2.5%', '0.025' or '1/40'")
        if not isinstance(text, str):
            raise wrong
        try:
            value = _fraction(text.strip())
        except (ValueError, ArithmeticError) as error:
            raise wrong from error
        return cls(value.numerator, value.denominator)

    def of(self, amount: int) -> int:
        """This share of an amount that is not negative, rounded down."""
        return amount * self.numerator // self.denominator


_LONGEST_SHARE = 40


def _fraction(text: str) -> Fraction:
    from decimal import Decimal
    from fractions import Fraction

    if not text.isascii() or len(text) > _LONGEST_SHARE or "e" in text.lower():
        raise ValueError(text)
    if "/" in text:
        above, _, below = text.partition("/")
        return Fraction(int(above), int(below))
    if text.endswith("%"):
        return Fraction(Decimal(text[:-1])) / 100
    return Fraction(Decimal(text))


class Activity(Protocol):
    """The amounts that calculators read of a record: whole minor units, none of them negative."""

    @property
    def turnover(self) -> int:
        """The stakes."""
        ...

    @property
    def won(self) -> int:
        """The gains of the rounds that were won, beyond their stakes."""
        ...

    @property
    def lost(self) -> int:
        """The losses of the rounds that were lost."""
        ...


class PlayerActivity(Struct, frozen=True, kw_only=True):
    """A record of one user's activity in a period, as the calculators want it.

    ``id`` identifies it within the period; amounts are whole minor units.
    """

    id: str
    user: str
    turnover: int = 0
    won: int = 0
    lost: int = 0


class Rebate(Struct, frozen=True, kw_only=True):
    """A share of the turnover, at most ``cap``."""

    share: Share
    cap: int = MAX_AMOUNT

    def __post_init__(self) -> None:
        """Check the cap."""
        _amount(self.cap, "cap")

    def __call__(self, record: Activity) -> int:
        """The credit that the record earns. Raises ``InvalidArgument`` on amounts that are none."""
        return min(self.share.of(_amount(record.turnover, "turnover")), self.cap)


class Cashback(Struct, frozen=True, kw_only=True):
    """A share of the net loss over the period, at most ``cap``; nothing for a net win."""

    share: Share
    cap: int = MAX_AMOUNT

    def __post_init__(self) -> None:
        """Check the cap."""
        _amount(self.cap, "cap")

    def __call__(self, record: Activity) -> int:
        """The credit that the record earns. Raises ``InvalidArgument`` on amounts that are none."""
        net = _amount(record.lost, "lost") - _amount(record.won, "won")
        return min(self.share.of(max(net, 0)), self.cap)


class Lossback(Struct, frozen=True, kw_only=True):
    """A share of what was lost, wins left aside, from ``floor`` on and at most ``cap``.

    Below ``floor`` nothing is given back; from it on, the share of all that was lost.
    """

    share: Share
    floor: int = 0
    cap: int = MAX_AMOUNT

    def __post_init__(self) -> None:
        """Check the bounds."""
        _amount(self.floor, "floor")
        _amount(self.cap, "cap")

    def __call__(self, record: Activity) -> int:
        """The credit that the record earns. Raises ``InvalidArgument`` on amounts that are none."""
        lost = _amount(record.lost, "lost")
        return min(self.share.of(lost), self.cap) if lost >= self.floor else 0


def _amount(value: object, what: str) -> int:
    return checks.integer(value, f"{what} (in minor units)", least=0, most=MAX_AMOUNT)
