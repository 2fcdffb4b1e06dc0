"""Checks of what a request says, each with a fault that tells what to give instead."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from offpath.model.checks import unseen
from offpath.model.ledger.chart import PLATFORM, chart, spendable
from offpath.model.ledger.faults import InvalidAmount, MalformedOperation, UnknownAccount
from offpath.model.ledger.money import CEILING, Currency, Money

LONGEST_TEXT: Final = 200
LONGEST_KEY: Final = 400
LONGEST_REASON: Final = 1_000
_DELETE: Final = "\x7f"


def text(value: object, what: str, longest: int = LONGEST_TEXT) -> str:
    """A text with something in it and no control characters. Raises ``MalformedOperation``."""
    if not isinstance(value, str) or not value.strip():
        raise MalformedOperation(f"{what} must be a text that is not blank")
    if len(value) > longest:
        raise MalformedOperation(f"{what} has {len(value)} characters, more than {longest}")
    if not value.isprintable() and any(one < " " or one == _DELETE for one in value):
        raise MalformedOperation(f"{what} has control characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise MalformedOperation(f"{what} is not a valid text: {value!r}") from None
    return value


def name(value: object, what: str, longest: int = LONGEST_TEXT) -> str:
    """A text that names something new, or somebody: of characters that can be seen.

    What names something that is there already is looked up as :func:`text`, or it could not be
    reached any more. Raises ``MalformedOperation``.
    """
    named = text(value, what, longest)
    if (hidden := unseen(named)) is not None:
        raise MalformedOperation(
            f"{what} has the invisible character U+{ord(hidden):04X}: two ids that look alike "
            "would be two"
        )
    return named


def flag(value: object, what: str) -> bool:
    """True or False, and nothing that is taken for one. Raises ``MalformedOperation``."""
    if not isinstance(value, bool):
        raise MalformedOperation(f"{what} is True or False, not {value!r}")
    return value


def user(value: object, what: str) -> str:
    """A user's id. Raises ``MalformedOperation`` for a house account or what is not an id."""
    named = name(value, what)
    if named == PLATFORM:
        raise MalformedOperation(f"{what} must be a user: {named!r} is the house")
    try:
        chart(spendable(named))
    except UnknownAccount:
        raise MalformedOperation(
            f"{what} must be a user's id without blanks and colons, not {named!r}"
        ) from None
    return named


def amount(value: object, what: str = "amount") -> Money:
    """Credits above zero, within the ceiling of an operation. Raises ``InvalidAmount``."""
    checked = money(value, what)
    if checked.currency is not Currency.CREDIT:
        raise InvalidAmount(f"{what} is in credits, not {checked}: give credits('12.34')")
    if checked.minor <= 0:
        raise InvalidAmount(f"{what} must be above zero, not {checked}")
    return checked


def dollars(value: object, what: str = "amount") -> Money:
    """Dollars above zero, within the ceiling of an operation. Raises ``InvalidAmount``."""
    checked = money(value, what)
    if checked.currency is not Currency.USD:
        raise InvalidAmount(f"{what} is in dollars, not {checked}: give usd('12.34')")
    if checked.minor <= 0:
        raise InvalidAmount(f"{what} must be above zero, not {checked}")
    return checked


def money(value: object, what: str) -> Money:
    """An amount within the ceiling of an operation. Raises ``InvalidAmount``."""
    if not isinstance(value, Money):
        raise InvalidAmount(
            f"{what} must be Money, such as credits('12.34'), not {type(value).__name__}"
        )
    if abs(value.minor) > CEILING:
        raise InvalidAmount(f"{what}: {value} is more than one operation may move")
    return value


def moment(value: object, what: str) -> int:
    """A time in whole milliseconds since 1970. Raises ``MalformedOperation``."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise MalformedOperation(f"{what} must be a datetime with a time zone")
    if value.microsecond % 1_000:
        raise MalformedOperation(f"{what} must be a whole number of milliseconds: {value}")
    return round(value.timestamp() * 1_000)


def duration(value: object, what: str, longest: timedelta) -> int:
    """Seconds or a timedelta as whole milliseconds, one at least. Raises ``MalformedOperation``."""
    if isinstance(value, timedelta):
        value = value / timedelta(seconds=1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedOperation(f"{what} must be seconds or a timedelta")
    if not 0 < value <= longest.total_seconds():
        raise MalformedOperation(
            f"{what} must be from a millisecond to {longest.days} days, not {value!r} seconds"
        )
    whole = round(value * 1_000)
    if whole < 1 or abs(whole - value * 1_000) > 1e-6 * max(1.0, whole * 1e-6):
        raise MalformedOperation(f"{what} must be whole milliseconds, not {value!r} seconds")
    return whole
