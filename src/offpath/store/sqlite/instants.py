"""Times as SQLite keeps them: whole microseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, overload

from offpath.errors import StoreRejected

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def micros(moment: datetime) -> int:
    """``moment`` (aware) as microseconds since the epoch, exact."""
    return (moment - _EPOCH) // _MICROSECOND


@overload
def instant(at: int) -> datetime: ...
@overload
def instant(at: int | None) -> datetime | None: ...
def instant(at: int | None) -> datetime | None:
    """The aware UTC datetime of ``at``."""
    return None if at is None else _EPOCH + timedelta(microseconds=at)


@overload
def readable(at: int) -> datetime: ...
@overload
def readable(at: int | None) -> datetime | None: ...
def readable(at: int | None) -> datetime | None:
    """As :func:`instant`, but the first or last time there is for one that cannot be read."""
    return None if at is None else instant(min(max(at, _FIRST), _LAST))


def later(now: int, seconds: float) -> int:
    """``seconds`` after ``now``. Raises ``StoreRejected`` for a time that no datetime can hold."""
    try:
        at = now + round(seconds * 1_000_000)
    except (OverflowError, ValueError):  # infinity, not a number
        at = _LAST + 1
    if not 0 <= at <= _LAST:
        message = f"{seconds} seconds from now is no time that can be stored: give a smaller number"
        raise StoreRejected(message)
    return at


def span(seconds: float | None) -> int | None:
    """A duration in microseconds; it may be less than nothing."""
    if seconds is None:
        return None
    return later(0, seconds) if seconds >= 0 else -later(0, -seconds)
