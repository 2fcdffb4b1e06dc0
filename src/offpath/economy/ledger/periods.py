"""Periods of subscriptions: so many milliseconds, or a calendar's days, weeks, months and years.

A calendar's period keeps its day and its time on the wall of a zone: of the 31st comes the last day
of a shorter month, and then the 31st again. So each end is reckoned from the beginning of the
series, never from the end before it.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.rows import SubscriptionBody
from offpath.economy.ledger.rules import ZoneOf
from offpath.errors import InvalidArgument
from offpath.model.ledger.faults import ChainBroken, MalformedOperation

Overdue: TypeAlias = Literal["charge", "skip", "one"]
OVERDUE: Final = ("charge", "skip", "one")
LONGEST: Final = timedelta(days=3_660)
_CALENDAR: Final = re.compile(r"P([1-9]\d{0,3})([DWMY])")
_MONTHS: Final = {"M": 1, "Y": 12}
_DAYS: Final = {"D": 1, "W": 7}
_MOST_MONTHS: Final = 120
_MOST_STEPS: Final = 100_000


class Calendar(Struct, frozen=True):
    """A calendar's period: so many months, or so many days."""

    months: int = 0
    days: int = 0


class Ahead(Struct, frozen=True, kw_only=True):
    """A period that is to be paid."""

    until: int
    """Its end, in milliseconds."""
    body: SubscriptionBody
    """The row's body once it is paid."""


def calendar(text: object) -> Calendar:
    """The period of a text such as ``P1M``. Raises ``MalformedOperation``."""
    match = _CALENDAR.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise MalformedOperation(
            "period is seconds, a timedelta, or a calendar's period: P1D, P1W, P1M, P3M, P1Y"
        )
    count, unit = int(match[1]), match[2]
    found = Calendar(months=count * _MONTHS.get(unit, 0), days=count * _DAYS.get(unit, 0))
    if found.months > _MOST_MONTHS or found.days > LONGEST.days:
        raise MalformedOperation(f"period is at most ten years, not {text}")
    return found


def checked(
    period: object, zone: object, grace: object, overdue: object, *, zone_of: ZoneOf
) -> None:
    """Refuse periods, zones and terms that cannot be meant. Raises ``MalformedOperation``."""
    if isinstance(period, str):
        calendar(period)
    else:
        checks.duration(period, "period", LONGEST)
    try:
        zone_of(checks.text(zone, "zone"))
    except InvalidArgument as error:
        raise MalformedOperation(str(error)) from None
    if zone != "UTC" and not isinstance(period, str):
        raise MalformedOperation("zone is for a calendar's period, such as P1M")
    if grace is not None and grace != 0:
        checks.duration(grace, "grace", LONGEST)
    if overdue not in OVERDUE:
        raise MalformedOperation(f"overdue is {', '.join(OVERDUE)}, not {overdue!r}")


def first(body: SubscriptionBody, now: int, zone_of: ZoneOf) -> SubscriptionBody:
    """The body of a series that begins now, its first period paid."""
    began = replace(body, began_at=now if body.calendar else None, steps=1)
    return replace(began, paid_until=_end(began, now, zone_of))


def ahead(body: SubscriptionBody, now: int, zone_of: ZoneOf) -> Ahead:
    """The period to be paid next, by what the subscription says of periods that were missed."""
    after = replace(body, steps=body.steps + 1)
    until = _end(after, body.paid_until, zone_of)
    if until <= now and body.overdue == "one":
        paid = first(body, now, zone_of)
        return Ahead(until=paid.paid_until, body=replace(paid, number=body.number + 1))
    if until <= now and body.overdue == "skip":
        after, until = _running(after, until, now, zone_of)
    paid = replace(after, paid_until=until, number=body.number + 1)
    return Ahead(until=until, body=paid)


def _running(
    body: SubscriptionBody, until: int, now: int, zone_of: ZoneOf
) -> tuple[SubscriptionBody, int]:
    """The period that runs now, behind those that have ended."""
    if not body.calendar:
        missed = (now - until) // body.period + 1
        return replace(body, steps=body.steps + missed), until + missed * body.period
    while until <= now and body.steps < _MOST_STEPS:
        body = replace(body, steps=body.steps + 1)
        until = _end(body, until, zone_of)
    return body, until


def _end(body: SubscriptionBody, before: int, zone_of: ZoneOf) -> int:
    """The end of the period; ``before`` is the end of the one before it."""
    if not body.calendar:
        return before + body.period
    if body.began_at is None:
        raise ChainBroken("a subscription by the calendar was altered: its beginning is gone")
    try:
        zone = zone_of(body.zone or "UTC")
        return _added(body.began_at, calendar(body.calendar), body.steps, zone)
    except (MalformedOperation, InvalidArgument, ValueError, OverflowError) as error:
        raise ChainBroken(f"a subscription's period was altered: {error}") from None


def _added(began_at: int, period: Calendar, steps: int, zone: tzinfo) -> int:
    began = datetime.fromtimestamp(began_at / 1_000, UTC).astimezone(zone)
    years, month = divmod(began.month - 1 + period.months * steps, 12)
    year, month = began.year + years, month + 1
    day = min(began.day, monthrange(year, month)[1])
    # Arithmetic of an aware time is that of the wall; a time that the zone skips is the one after.
    wall = began.replace(year=year, month=month, day=day, fold=0)
    wall += timedelta(days=period.days * steps)
    return round(wall.astimezone(UTC).timestamp() * 1_000)
