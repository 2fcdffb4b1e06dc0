"""Lengths of time in words, as pages tell them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from offpath.operating.times import short

_MINUTE: Final = 60
_ALMOST_ONE: Final = 0.9995
"""From here on three digits of milliseconds are a second."""


def lasted(value: float) -> str:
    """So many seconds: short ones to three digits, long ones in two units."""
    if value < _ALMOST_ONE:
        return f"{rounded(1_000 * value, 3)} ms"
    return f"{rounded(value, 3)} s" if value < _MINUTE else short(timedelta(seconds=value))


def rounded(value: float, digits: int) -> str:
    """The number in so many digits that count, without an exponent."""
    return f"{float(f'{value:.{digits}g}'):,.6f}".rstrip("0").rstrip(".")
