"""Times as rows answer them: whole microseconds since 1970, in every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, overload

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
FIRST: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
LAST: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
"""The first and the last time that a datetime can hold."""


def micros(moment: datetime) -> int:
    """``moment`` (aware) as microseconds since the epoch, exact."""
    return (moment - EPOCH) // _MICROSECOND


@overload
def instant(at: int) -> datetime: ...
@overload
def instant(at: int | None) -> datetime | None: ...
def instant(at: int | None) -> datetime | None:
    """The aware UTC datetime of ``at``."""
    return None if at is None else EPOCH + timedelta(microseconds=at)


@overload
def readable(at: int) -> datetime: ...
@overload
def readable(at: int | None) -> datetime | None: ...
def readable(at: int | None) -> datetime | None:
    """The time of :func:`instant`, or the first or last time there is for one that cannot be
    read.
    """
    return None if at is None else instant(min(max(at, FIRST), LAST))
