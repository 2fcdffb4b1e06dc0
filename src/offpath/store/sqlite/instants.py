"""Spans of time as SQLite's statements add them: whole microseconds."""

from __future__ import annotations

from offpath.errors import StoreRejected
from offpath.store.programs.instants import LAST


def later(now: int, seconds: float) -> int:
    """``seconds`` after ``now``. Raises ``StoreRejected`` for a time that no datetime can hold."""
    try:
        at = now + round(seconds * 1_000_000)
    except (OverflowError, ValueError):  # infinity, not a number
        at = LAST + 1
    if not 0 <= at <= LAST:
        raise StoreRejected(
            f"{seconds} seconds from now is not a time that can be stored: give a smaller number"
        )
    return at


def span(seconds: float | None) -> int | None:
    """A duration in microseconds; it may be less than nothing."""
    if seconds is None:
        return None
    return later(0, seconds) if seconds >= 0 else -later(0, -seconds)
