"""The next time of a cron expression, an interval or a function. Pure; all times are UTC.

The rule for clock changes. An expression whose hour field is ``*`` follows the clock as it runs:
it comes at every moment at which a clock in its zone shows a time that fits, so an hour that comes
twice has its occurrences twice, and a skipped one has none. Every other expression names times of
the day, and each time of a day comes once: one that is skipped comes at the first moment after the
gap, one that comes twice is taken the first time. Times that meet in one moment are one occurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.schedule import Timing, TimingKind
from offpath.runtime.seats import called
from offpath.runtime.zones import zone_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

NextTime = Callable[[datetime], datetime | None]
"""The first occurrence after a time, None when there is none any more. Strictly later."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The start from which an interval is counted by default: the same for everybody, so nobody
drifts.
"""
SHORTEST = 1.0
LONGEST = 10 * 366 * 86_400.0
MAX_EXPRESSION = 200

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_ALL_HOURS = set(range(24))
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class Cron:
    """The times of a cron expression in a zone. Raises ``InvalidArgument`` for a bad one."""

    __slots__ = ("_fields", "_hourly", "_zone")

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        self._zone = zone_of(zone)
        self._fields, self._hourly = _parsed(expression)

    def __call__(self, after: datetime) -> datetime | None:
        """The first occurrence after that time; None when none comes within 50 years."""
        try:
            return self._clockwise(after) if self._hourly else self._daily(after)
        except (OverflowError, ValueError):
            return None  # beyond the last year that a date can have

    def _daily(self, after: datetime) -> datetime | None:
        zone = self._zone
        for wall in self._walls(_wall(after, zone)):
            # In a repeated hour the walls that follow stand for moments that have passed.
            if (at := _moment(wall, zone)) > after:
                return at
        return None

    def _clockwise(self, after: datetime) -> datetime | None:
        zone = self._zone
        cursor = after.replace(microsecond=0)
        passed = _wall(cursor, zone)
        while (wall := next(self._walls(passed), None)) is not None:
            at = (wall - _offset(cursor, zone)).replace(tzinfo=UTC)
            change = _change_before(cursor, at, zone)
            if change is None:
                return at
            cursor = change
            passed = _wall(cursor, zone) - _SECOND
        return None

    def _walls(self, after: datetime) -> Iterator[datetime]:
        """The times that a wall clock without changes would show, later than this one."""
        from cronsim import CronSim

        return CronSim(self._fields, after)


class Every:
    """Times at one distance, counted from an anchor in both directions, so that none drifts."""

    __slots__ = ("_anchor", "_step")

    def __init__(self, seconds: float, anchor: datetime | None = None) -> None:
        self._step = timedelta(
            seconds=checks.number(seconds, "every", least=SHORTEST, most=LONGEST)
        )
        self._anchor = EPOCH if anchor is None else checks.aware(anchor, "anchor")

    def __call__(self, after: datetime) -> datetime | None:
        """The first occurrence after that time."""
        passed = (after - self._anchor) // self._step
        try:
            return self._anchor + (passed + 1) * self._step
        except OverflowError:
            return None


class Function:
    """The times that a user's function gives, checked."""

    __slots__ = ("_function", "_name")

    def __init__(self, name: str, function: NextTime) -> None:
        self._name = name
        self._function = function

    def __call__(self, after: datetime) -> datetime | None:
        """The time that the function returns. Raises ``InvalidArgument`` when that is not a later
        time.
        """
        given = called(self._function, after)
        if given is None:
            return None
        at = checks.aware(given, f"what the next-time function {self._name!r} returned")
        if at <= after:
            raise InvalidArgument(
                f"the next-time function {self._name!r} returned {at.isoformat()}, which is not "
                f"after {after.isoformat()}"
            )
        return at


def next_time(timing: Timing, functions: Mapping[str, NextTime]) -> NextTime:
    """The function that gives the times of ``timing``.

    Raises ``InvalidArgument`` for an expression, a zone or an interval that cannot be, and for a
    function that is not registered here.
    """
    match timing.kind:
        case TimingKind.CRON:
            return Cron(timing.expression or "", timing.zone)
        case TimingKind.EVERY:
            return Every(timing.seconds or 0.0, timing.anchor)
        case TimingKind.FUNCTION:
            name = timing.function or ""
            if name not in functions:
                raise InvalidArgument(
                    f"there is no next-time function {name!r} here: register it with "
                    "@app.next_time in the app that workers run"
                )
            return Function(name, functions[name])
        case _:
            assert_never(timing.kind)


@lru_cache(maxsize=1_000)
def _parsed(expression: str) -> tuple[str, bool]:
    """The fields of an expression, and whether it fits at every hour."""
    from cronsim import CronSim, CronSimError

    text = checks.text(expression, "cron", longest=MAX_EXPRESSION).strip()
    fields = ALIASES.get(text.lower(), text)
    if fields.startswith("@"):
        raise InvalidArgument(f"cron has no {text!r}: it knows {', '.join(ALIASES)}")
    try:
        parsed = CronSim(fields, _LONG_AGO.replace(tzinfo=None))
        first = next(parsed, None)
    except CronSimError as error:
        raise InvalidArgument(
            f"{text!r} is not a cron expression ({error}): it has five fields, minute hour day "
            "month weekday, as '30 3 * * MON-FRI', and names dates that come"
        ) from error
    if first is None:
        raise InvalidArgument(f"the cron expression {text!r} names a date that never comes")
    return fields, parsed.hours == _ALL_HOURS


# -- walls and moments -----------------------------------------------------------------------------


def _wall(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None)


def _offset(at: datetime, zone: ZoneInfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


def _moment(wall: datetime, zone: ZoneInfo) -> datetime:
    """The moment when a wall clock shows this first; for a time that it skips, the end of the
    gap.
    """
    at = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _wall(at, zone) == wall:
        return at
    # Read with the offset after the gap, the time lies before it; with the one before, after it.
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change(before, at, zone)


def _change_before(low: datetime, high: datetime, zone: ZoneInfo) -> datetime | None:
    """The first moment after ``low``, up to ``high``, at which the offset is another one."""
    offset = _offset(low, zone)
    while low < high:
        step = min(low + _DAY, high)
        if _offset(step, zone) != offset:
            return _change(low, step, zone)
        low = step
    return None


def _change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The moment of the change between two times of whole seconds with different offsets."""
    offset = _offset(low, zone)
    first, last = 0, int((high - low).total_seconds())
    while last - first > 1:
        middle = (first + last) // 2
        if _offset(low + middle * _SECOND, zone) == offset:
            first = middle
        else:
            last = middle
    return low + last * _SECOND


def explained(expression: str) -> str | None:
    """A cron expression as a sentence, ``At 03:00 every day``; None for one that is none."""
    try:
        fields, _ = _parsed(expression)
        return _explained(fields)
    except InvalidArgument:
        return None


@lru_cache(maxsize=256)
def _explained(fields: str) -> str:
    from cronsim import CronSim

    return CronSim(fields, _LONG_AGO.replace(tzinfo=None)).explain()
