"""Money: a currency and a whole number of minor units, 100 to the unit, in 64 bits with a sign.

There is no arithmetic with fractions: rates are exact pairs (:mod:`offpath.model.ledger.rates`),
and each place that divides says which way it rounds.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from offpath.model.ledger.faults import CurrencyMismatch, InvalidAmount, MoneyOverflow

MINOR: Final = 100
"""Minor units of one whole unit, of either currency."""
LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1
CEILING: Final = 10**15
"""The most minor units that one operation may move."""

_TEXT = re.compile(r"(CREDIT|USD):(-?)(\d{1,19})(?:\.(\d{1,2}))?", re.ASCII)
_BARE = re.compile(r"(-?)(\d{1,19})", re.ASCII)
_CENTS = tuple([f".{cents:02d}" for cents in range(MINOR)])


class Currency(StrEnum):
    """The currency that an amount counts."""

    CREDIT = "CREDIT"
    """Credits inside the app."""
    USD = "USD"
    """Real money."""

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class Money(Struct, frozen=True, order=False, gc=False):
    """An amount. Raises ``MoneyOverflow`` outside of 64 bits, ``InvalidAmount`` for a float.

    Amounts of one currency can be added, subtracted, negated and compared; two currencies raise
    ``CurrencyMismatch``. ``str`` gives the text form ``CREDIT:12.34`` that JSON, events and hashed
    metadata have, and :meth:`parse` reads it.
    """

    currency: Currency
    minor: int

    def __post_init__(self) -> None:
        """Check the range: also what was computed comes through here."""
        checked(self.minor)

    def __str__(self) -> str:
        """Write it as ``CURRENCY:decimal`` with two decimals and no grouping."""
        return text(self.currency, self.minor)

    def __add__(self, other: Money) -> Money:
        """Add an amount of the same currency."""
        return Money(self._same(other), self.minor + other.minor)

    def __sub__(self, other: Money) -> Money:
        """Take an amount of the same currency away."""
        return Money(self._same(other), self.minor - other.minor)

    def __neg__(self) -> Money:
        """Turn its sign."""
        return Money(self.currency, -self.minor)

    def __lt__(self, other: Money) -> bool:
        """Compare within a currency."""
        self._same(other)
        return self.minor < other.minor

    def __le__(self, other: Money) -> bool:
        """Compare within a currency."""
        self._same(other)
        return self.minor <= other.minor

    def __bool__(self) -> bool:
        """True if it is anything but zero."""
        return self.minor != 0

    def _same(self, other: Money) -> Currency:
        if self.currency is not other.currency:
            raise CurrencyMismatch(
                f"{self} and {other} are of two currencies: nothing converts between them but a "
                "rate, at a place that names its rounding"
            )
        return self.currency

    @classmethod
    def parse(cls, given: str, *, currency: Currency = Currency.CREDIT) -> Money:
        """Read ``CREDIT:12.34``; a bare whole number, ``"12"``, is whole units of ``currency``.

        Raises ``InvalidAmount`` for more than two decimals, grouping, an unknown currency and what
        does not fit 64 bits.
        """
        if not isinstance(given, str):
            raise InvalidAmount(_shape(given))
        if (bare := _BARE.fullmatch(given)) is not None:
            return cls._fit(currency, bare[1], int(bare[2]) * MINOR, given)
        if (match := _TEXT.fullmatch(given)) is None:
            raise InvalidAmount(_shape(given))
        minor = int(match[3]) * MINOR + int((match[4] or "0").ljust(2, "0"))
        return cls._fit(Currency(match[1]), match[2], minor, given)

    @classmethod
    def _fit(cls, currency: Currency, sign: str, size: int, given: str) -> Money:
        minor = -size if sign else size
        if not LEAST <= minor <= MOST:
            raise InvalidAmount(f"{given!r} does not fit 64 bits of minor units")
        return cls(currency, minor)


@lru_cache(maxsize=8_192)  # prices repeat, and each is written several times
def text(currency: str, minor: int) -> str:
    """The text form of an amount: ``USD:-0.05``."""
    whole, cents = divmod(abs(minor), MINOR)
    return "".join((currency, ":-" if minor < 0 else ":", str(whole), _CENTS[cents]))


def credits(amount: int | str) -> Money:
    """Credits: whole ones from an int or a bare text, or a decimal text such as ``"12.34"``."""
    return _amount(Currency.CREDIT, amount)


def usd(amount: int | str) -> Money:
    """Dollars: whole ones from an int or a bare text, or a decimal text such as ``"0.05"``."""
    return _amount(Currency.USD, amount)


def checked(minor: int) -> int:
    """A number of minor units that fits. Raises ``MoneyOverflow``, ``InvalidAmount``."""
    if type(minor) is not int:
        raise InvalidAmount(
            f"an amount is a whole number of minor units, not {type(minor).__name__}: floats "
            "cannot hold money; give a text such as 'CREDIT:12.34'"
        )
    if not LEAST <= minor <= MOST:
        raise MoneyOverflow(f"{minor} minor units do not fit 64 bits")
    return minor


def _amount(currency: Currency, amount: int | str) -> Money:
    if type(amount) not in (int, str):
        raise InvalidAmount(_shape(amount))
    return Money.parse(f"{currency}:{amount}")


def _shape(given: object) -> str:
    return (
        f"{given!r} is not an amount: write CREDIT:12.34 or USD:0.05, with at most two "
        "decimals and no grouping"
    )[:300]
