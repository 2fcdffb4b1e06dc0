"""Times of stats: the range that is told, and how long each of its points is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model.stats import DAY, FIVE, HOUR, KEPT, MINUTE, SECONDS, STEPS

RANGES: Final = {
    "15m": (15 * MINUTE, SECONDS),
    "1h": (HOUR, MINUTE),
    "6h": (6 * HOUR, FIVE),
    "2d": (2 * DAY, HOUR),
    "90d": (90 * DAY, DAY),
}
"""Seconds of each range, and of one of its points, for which rows of that step are kept."""
USUAL: Final = "1h"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StatTimes(Struct, frozen=True, kw_only=True):
    """The times that are asked for, in the place of a range that has a name."""

    since: datetime | None = None
    until: datetime | None = None
    step: int | None = None
    """Seconds of one point; the shortest of which rows are kept, where nothing is said."""


UNSAID: Final = StatTimes()


class StatRange(Struct, frozen=True, kw_only=True):
    """A range of time, in whole points."""

    name: str
    """Empty for times that were asked for."""
    since: datetime
    until: datetime
    step: int


def stat_range(within: str | None, times: StatTimes, now: datetime) -> StatRange:
    """The range that is asked for, by its name or by its times. Raises ``InvalidArgument``."""
    if times == UNSAID:
        return _named(USUAL if within is None else within, now)
    if within is not None:
        raise InvalidArgument("range is one way to say a time; from, to and step are the other")
    return _timed(times, now)


def finest(since: datetime, now: datetime) -> int:
    """The shortest step of which rows are kept since then; the longest of all before that."""
    return next((one for one in STEPS if since >= _kept_since(one, now)), STEPS[-1])


def floored(moment: datetime, step: int) -> datetime:
    """The beginning of the span in which a moment lies."""
    return moment - (moment - _EPOCH) % timedelta(seconds=step)


def _named(name: str, now: datetime) -> StatRange:
    if name not in RANGES:
        raise InvalidArgument(f"range is one of {', '.join(RANGES)}, not {name!r:.40}")
    seconds, step = RANGES[name]
    until = floored(now, step)
    return StatRange(name=name, since=until - timedelta(seconds=seconds), until=until, step=step)


def _timed(times: StatTimes, now: datetime) -> StatRange:
    _check(times, now)
    until = now if times.until is None else min(times.until, now)
    since = times.since
    if since is None and times.step is not None:
        since = _kept_since(times.step, now)
    elif since is None:
        since = until - timedelta(seconds=HOUR)
    if since >= until:
        raise InvalidArgument("from must be a time before to, and before now")
    step = finest(since, now) if times.step is None else times.step
    if since < _kept_since(step, now):
        wider = finest(since, now)
        raise InvalidArgument(
            f"points of {step} s are kept for {KEPT[step] // MINUTE} minutes: "
            f"from must be later, or step {wider}"
        )
    whole = until + timedelta(seconds=step, microseconds=-1)  # the last point is told to its end
    return StatRange(
        name="",
        since=floored(since, step).astimezone(UTC),
        until=floored(min(whole, now), step).astimezone(UTC),
        step=step,
    )


def _check(times: StatTimes, now: datetime) -> None:
    """Refuse times of which nothing is kept."""
    for name, one in (("from", times.since), ("to", times.until)):
        if one is not None and one < _kept_since(DAY, now):
            days = KEPT[DAY] // DAY
            raise InvalidArgument(f"{name} is too long ago: stats are kept for {days} days")


def _kept_since(step: int, now: datetime) -> datetime:
    return now - timedelta(seconds=KEPT[step])
