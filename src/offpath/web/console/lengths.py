"""Lengths of time in words, as pages tell them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from offpath.operating.times import short

_MINUTE: Final = 60


def lasted(value: float) -> str:
    """So many seconds: short ones to three digits, long ones in two units."""
    if value < 1:
        return f"{1_000 * value:.3g} ms"
    return f"{value:.3g} s" if value < _MINUTE else short(timedelta(seconds=value))
