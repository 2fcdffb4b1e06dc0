"""Checks of single values that come from outside, each with an error that says what to give."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from offpath.errors import InvalidArgument

MOST_LISTED = 10_000
"""Rows of one list, whatever was asked for: a longer one would be held in memory whole."""
MAX_NAME = 200
"""Longest task, queue or tag, in characters."""
MAX_KEY = 500
"""Longest unique key, in characters."""
MAX_TAGS = 50
"""Most tags of one job."""
MAX_PRIORITY = 2**31 - 1
MAX_SECONDS = 1e10
"""About 317 years: longer ones cannot be added to a datetime."""
UNPRINTABLE = (
    r"[\u0001-\u001F\u007F-\u00A0\u00AD\u0600-\u0605\u061C\u06DD\u070F\u0890-\u0891\u08E2\u1680"
    r"\u180E\u2000-\u200F\u2028-\u202F\u205F-\u2064\u2066-\u206F\u3000\uE000-\uF8FF\uFEFF"
    r"\uFFF9-\uFFFB\U000110BD\U000110CD\U00013430-\U00013438\U0001BCA0-\U0001BCA3"
    r"\U0001D173-\U0001D17A\U000E0001\U000E0020-\U000E007F\U000F0000-\U000FFFFD"
    r"\U00100000-\U0010FFFD]"
)
"""Characters that a name must not have: controls, formats, separators but the space, private ones.

Written out and not asked of Python, whose tables change with its version: the SQL door of Postgres
has the same list, and both refuse the same names.
"""
_unprintable = re.compile(UNPRINTABLE).search


def seconds(value: object, what: str, *, unlimited: bool = False) -> float:
    """``value`` as seconds, finite and not negative.

    With ``unlimited``, infinity is accepted and means "no limit". Raises ``InvalidArgument``.
    """
    given = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidArgument(
            f"{what} must be seconds (a number) or a timedelta, not {type(value).__name__}"
        )
    if unlimited and given == math.inf:
        return math.inf
    if not 0 <= given <= MAX_SECONDS:
        raise InvalidArgument(
            f"{what} must be between 0 and {MAX_SECONDS:.0f} seconds, not {given!r}"
        )
    return float(given)


def aware(value: object, what: str) -> datetime:
    """``value`` in UTC. Raises ``InvalidArgument`` for a naive datetime or another type."""
    if not isinstance(value, datetime):
        raise InvalidArgument(
            f"{what} must be a datetime with a time zone, not {type(value).__name__}"
        )
    if value.utcoffset() is None:
        raise InvalidArgument(
            f"{what} must have a time zone: write datetime(..., tzinfo=UTC) "
            f"or datetime.now(UTC) instead of {value.isoformat()}"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidArgument(
            f"{what} lies outside of the years that UTC can express: {value.isoformat()}"
        ) from error


def name(value: object, what: str) -> str:
    """``value``, a name that every backend can store and every terminal can show.

    Raises ``InvalidArgument`` when it is empty, longer than ``MAX_NAME`` or not printable.
    """
    result = text(value, what, longest=MAX_NAME)
    # Stricter than :func:`unseen`, as line separators break a table too.
    if not result.isprintable() and _unprintable(result):
        raise InvalidArgument(
            f"{what} must not have control or unprintable characters: {result[:80]!a}"
        )
    return result


_UNSEEN = frozenset(("Cc", "Cf", "Cs"))
"""Unicode's categories of control characters, of what is invisible or turns the direction of text,
and of halves of a surrogate pair."""


def unseen(value: str) -> str | None:
    """The first character that nobody sees, or that changes how others are shown; None: there is
    none.

    Two names that look alike must be one name, so no name and no id has such a character. Keys that
    programs make of their data, free texts and what is only looked up are not names: there they are
    stored as they come, and escaped where they are shown.
    """
    if value.isprintable():  # which none of them is
        return None
    return next((one for one in value if unicodedata.category(one) in _UNSEEN), None)


def text(value: object, what: str, *, longest: int) -> str:
    """``value``, a short text that every backend can store.

    Raises ``InvalidArgument`` when it is empty, too long, or has NUL or lone surrogates.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} must be a str, not {type(value).__name__}")
    if not 0 < len(value) <= longest:
        raise InvalidArgument(f"{what} must have 1 to {longest} characters, not {len(value)}")
    # nearly every key is ASCII, and is looked through at once
    plain = value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)
    if not plain or "\0" in value:
        raise InvalidArgument(f"{what} must not have NUL or lone surrogates: {value[:80]!a}")
    return value


def number(value: object, what: str, *, least: float, most: float) -> float:
    """``value``, a finite number in these bounds. Raises ``InvalidArgument``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidArgument(
            f"{what} must be a number from {least:.10g} to {most:.10g}, not {value!r}"
        )
    return float(value)


def integer(value: object, what: str, *, least: int, most: int) -> int:
    """``value``, a whole number in these bounds. Raises ``InvalidArgument``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"{what} must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidArgument(f"{what} must be between {least} and {most}, not {value}")
    return value


def known(given: Iterable[str], names: Collection[str], whose: str) -> None:
    """Raise ``InvalidArgument`` for the first keyword that is none of ``names``, with one like it.

    ``whose`` begins the sentence: "a job has no option".
    """
    for one in given:
        if one not in names:
            raise InvalidArgument(f"{whose} {one!r}; {like(one, names)}")


def no_settings(given: Iterable[str], settings: Collection[str]) -> None:
    """Refuse settings where an app takes keywords, and say where they go."""
    for name in given:
        if name in settings:
            raise InvalidArgument(
                f"{name!r} is a setting, which is not a keyword of an app: write "
                f"OFFPATH_{name.upper()}, or {name.replace('_', '-')} in [tool.offpath], or "
                f"App(settings=offpath.config.load_settings({name}=...))"
            )


def like(given: str, names: Collection[str]) -> str:
    """The ones of ``names`` that may have been meant: by another library's word, or a slip."""
    import difflib

    from offpath.model.other_words import OPTIONS

    if (ours := OPTIONS.get(given)) in names:
        return f"here it is called {ours!r}"
    near = difflib.get_close_matches(given, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(names))}"
