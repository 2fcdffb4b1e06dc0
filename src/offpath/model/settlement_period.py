"""The period of a settlement run: a month, a week, a day or a range, in a zone of its own."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum

from msgspec import Struct

from offpath.errors import InvalidArgument

FORMS = "2026-11 (month), 2026-W48 (ISO week), 2026-11-27 (day) or START/END, the end excluded"
"""The ways to write a period."""


class PeriodUnit(StrEnum):
    """The length of a period."""

    MONTH = "month"
    WEEK = "week"
    """An ISO week: Monday to Sunday."""
    DAY = "day"
    RANGE = "range"


class Period(Struct, frozen=True, kw_only=True):
    """From ``start`` up to and without ``end``, both aware and in UTC."""

    unit: PeriodUnit
    start: datetime
    end: datetime
    name: str
    """The identity of the period in the keys of credits: the same for each way to write the same
    period.

    It has the zone in it and no separator, ``2026-11@Europe/Madrid``; that of a range has its two
    instants, ``2026-11-01T00:00:00Z/2026-11-15T00:00:00Z``.
    """

    def __str__(self) -> str:
        """The name."""
        return self.name

    def __contains__(self, moment: datetime) -> bool:
        """True if an aware datetime lies in it."""
        return self.start <= moment < self.end


def parse_period(text: str, zone: tzinfo, zone_name: str) -> Period:
    """The period that ``text`` names, with its midnights in ``zone``.

    Raises ``InvalidArgument``, which names the forms, for anything else: a month that there is
    not, a range that ends before it begins, another type.
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"a period is a text, {FORMS}; not {type(text).__name__}")
    try:
        return _parsed(text.strip(), zone, zone_name)
    except InvalidArgument:
        raise
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"{text[:80]!r} is not a period: write {FORMS}") from error


_MONTH = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_WEEK = re.compile(r"(\d{4})-W(\d{2})", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def _parsed(text: str, zone: tzinfo, zone_name: str) -> Period:
    if found := _MONTH.fullmatch(text):
        first = date(int(found[1]), int(found[2]), 1)
        after = (first + timedelta(days=31)).replace(day=1)
        return _whole(PeriodUnit.MONTH, text, (first, after), zone, zone_name)
    if found := _WEEK.fullmatch(text):
        first = date.fromisocalendar(int(found[1]), int(found[2]), 1)
        return _whole(PeriodUnit.WEEK, text, (first, first + timedelta(days=7)), zone, zone_name)
    if _DAY.fullmatch(text):
        first = date.fromisoformat(text)
        return _whole(PeriodUnit.DAY, text, (first, first + timedelta(days=1)), zone, zone_name)
    return _range(text, zone)


def _whole(
    unit: PeriodUnit, text: str, days: tuple[date, date], zone: tzinfo, zone_name: str
) -> Period:
    start, end = (_midnight(day, zone) for day in days)
    return Period(unit=unit, start=start, end=end, name=f"{text}@{zone_name}")


def _range(text: str, zone: tzinfo) -> Period:
    first, slash, last = text.partition("/")
    if not slash:
        raise ValueError(text)
    start, end = _moment(first, zone), _moment(last, zone)
    if start >= end:
        raise InvalidArgument(f"{text[:80]!r} ends before it begins: the end comes last")
    name = f"{_instant(start)}/{_instant(end)}"
    return Period(unit=PeriodUnit.RANGE, start=start, end=end, name=name)


def _moment(text: str, zone: tzinfo) -> datetime:
    """A day's midnight, or a time; one that names no zone is in the period's."""
    if _DAY.fullmatch(text):
        return _midnight(date.fromisoformat(text), zone)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def _midnight(day: date, zone: tzinfo) -> datetime:
    # Where the clock skips midnight this is the instant of the change: no gap between two days.
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _instant(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
