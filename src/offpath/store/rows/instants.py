"""Moments that are counted from now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from offpath.errors import StoreRejected

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _SECOND
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _SECOND


def later(now: datetime, seconds: float) -> datetime:
    """A moment ``seconds`` from now. Raises StoreRejected when there is no such moment."""
    if seconds == 0.0:
        return now
    try:
        return now + timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise StoreRejected(f"{seconds} seconds from now is not a moment in time") from error


def maybe_later(now: datetime, seconds: float | None) -> datetime | None:
    """The time of :func:`later`; None stays None."""
    return None if seconds is None else later(now, seconds)


def whole_seconds(moment: datetime) -> int:
    """A moment in whole seconds since 1970."""
    return (moment - _EPOCH) // _SECOND


def from_seconds(at: int) -> datetime:
    """The moment of so many seconds since 1970; the first or last there is for others."""
    return _EPOCH + timedelta(seconds=min(max(at, _FIRST), _LAST))


def milliseconds(now: datetime) -> int:
    """A moment in milliseconds since 1970, as ledgers have it."""
    return (now - _EPOCH) // _MILLISECOND
