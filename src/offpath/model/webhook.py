"""The meaning of a receiver's answer for a message and for its endpoint: the whole arithmetic."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from offpath.model.endpoint import Endpoint, EndpointNote
from offpath.model.route_decision import matches

SCHEDULE: Final = (
    0.0,
    5.0,
    300.0,
    1_800.0,
    7_200.0,
    18_000.0,
    36_000.0,
    50_400.0,
    72_000.0,
    86_400.0,
)
"""Seconds before each attempt: at once, 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h. The schedule
of the Standard Webhooks specification, about three days in all."""
JITTER: Final = 0.1
"""Share by which a wait is longer or shorter at random."""
LIMIT: Final = 20.0
"""Seconds that a receiver has to answer."""
OPEN_AFTER: Final = 5
"""Posts that fail in a row until the circuit opens: then one post at a time, with waits between."""
FIRST_BLOCK: Final = 30.0
LONGEST_BLOCK: Final = 3_600.0
"""Seconds between two posts while the circuit is open: doubled from the first up to the longest."""
DISABLE_AFTER: Final = 5 * 86_400.0
"""Seconds of nothing but failures after which an endpoint is disabled."""
LONGEST_WAIT: Final = 86_400.0
"""The most that a ``Retry-After`` is heeded, in seconds."""
LEAST_WAIT: Final = 1.0
"""The least: a receiver that says "at once" each time would be asked without a pause, for ever."""
BUSY_WAIT: Final = 60.0
"""The wait after 429 without a ``Retry-After``."""
_MOST_DIGITS: Final = 12
"""A number of more digits is beyond every bound, and need not be read."""
_TWO_DIGIT_YEAR: Final = re.compile(r"\d-[A-Za-z]{3}-\d\d\s")
"""The year of RFC 850's dates."""
_GONE, _TOO_MANY, _UNAVAILABLE = 410, 429, 503


class Delivered(Struct, frozen=True):
    """Any 2xx."""

    status: int | None = None


class Gone(Struct, frozen=True):
    """410: the endpoint wants no more."""

    status: int | None = None


class RetryLater(Struct, frozen=True):
    """429, or 503 with a time: nothing is wrong with the message. No attempt is counted."""

    seconds: float
    status: int | None = None


class Refused(Struct, frozen=True):
    """Anything else, a redirect included: a failed attempt."""

    why: str
    status: int | None = None
    """None: there was no answer."""


Answer = Delivered | Gone | RetryLater | Refused


def judged(status: int, retry_after: str | None, now: datetime) -> Answer:
    """The meaning of a status."""
    if 200 <= status < 300:  # noqa: PLR2004 - the class of success
        return Delivered(status)
    if status == _GONE:
        return Gone(status)
    asked = waiting(retry_after, now)
    if status == _TOO_MANY:
        return RetryLater(BUSY_WAIT if asked is None else asked, status)
    if status == _UNAVAILABLE and asked is not None:
        return RetryLater(asked, status)
    if 300 <= status < 400:  # noqa: PLR2004 - the class of redirects
        return Refused(f"status {status}: redirects are not followed", status)
    return Refused(f"status {status}", status)


def waiting(retry_after: str | None, now: datetime) -> float | None:
    """Seconds of a ``Retry-After``: a number or a date (RFC 9110, 10.2.3); otherwise None."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0")
        return LONGEST_WAIT if len(digits) > _MOST_DIGITS else min(float(digits or 0), LONGEST_WAIT)
    at = _date(text, now)
    return None if at is None else min(max((at - now).total_seconds(), 0.0), LONGEST_WAIT)


def _date(text: str, now: datetime) -> datetime | None:
    """The time of a date in one of HTTP's three forms (RFC 9110, 5.6.7); None for other text."""
    from email.utils import parsedate_to_datetime  # it loads much, and few receivers send a date

    try:
        at = parsedate_to_datetime(text)
        if at.tzinfo is None:  # the form of asctime names no zone: all of HTTP is in UTC
            at = at.replace(tzinfo=UTC)
        return _in_its_century(at, now) if _TWO_DIGIT_YEAR.search(text) else at
    except (ValueError, TypeError, OverflowError):
        return None


def _in_its_century(at: datetime, now: datetime) -> datetime:
    """A date of two-digit year: of this century, unless that is over 50 years ahead."""
    at = at.replace(year=now.year - now.year % 100 + at.year % 100)
    return at.replace(year=at.year - 100) if at.year > now.year + 50 else at


def wait_before(attempt: int, random01: float) -> float | None:
    """Seconds from a failed attempt (1, 2, …) to the next; None when there is none."""
    if attempt >= len(SCHEDULE):
        return None
    return SCHEDULE[attempt] * (1 - JITTER + 2 * JITTER * random01)


def note_for(endpoint: Endpoint, answer: Answer, now: datetime) -> EndpointNote | None:
    """The note to record of an endpoint after this answer; None when nothing about it changed."""
    match answer:
        case Delivered():
            healthy = endpoint.failures == 0 and endpoint.blocked_until is None
            return None if healthy else EndpointNote(name=endpoint.name, delivered=True)
        case Gone():
            return EndpointNote(name=endpoint.name, delivered=False, disable="it answered 410 Gone")
        case RetryLater(seconds=seconds):
            return EndpointNote(
                name=endpoint.name,
                delivered=False,
                block=max(seconds, LEAST_WAIT, block_after(endpoint.failures + 1) or 0.0),
                disable=_given_up(endpoint, now),
            )
        case Refused():
            return EndpointNote(
                name=endpoint.name,
                delivered=False,
                block=block_after(endpoint.failures + 1),
                disable=_given_up(endpoint, now),
            )


def block_after(failures: int) -> float | None:
    """Seconds without a post after so many failures in a row; None while the circuit is closed."""
    if failures < OPEN_AFTER:
        return None
    return min(FIRST_BLOCK * 2.0 ** min(failures - OPEN_AFTER, 30), LONGEST_BLOCK)


def is_open(endpoint: Endpoint) -> bool:
    """True if the circuit is open, so that one post at a time is tried."""
    return endpoint.failures >= OPEN_AFTER


def blocked(endpoint: Endpoint, now: datetime) -> bool:
    """True if nothing may be posted to it now."""
    return endpoint.blocked_until is not None and endpoint.blocked_until > now


def wants(endpoint: Endpoint, stream: str, topic: str) -> bool:
    """True if an endpoint is meant by an event."""
    return any(matches(pattern, stream) for pattern in endpoint.streams) and any(
        matches(pattern, topic) for pattern in endpoint.topics
    )


def _given_up(endpoint: Endpoint, now: datetime) -> str | None:
    since = endpoint.failing_since
    if since is None or (now - since).total_seconds() < DISABLE_AFTER:
        return None
    return f"every post has failed since {since:%Y-%m-%d %H:%M} UTC"
