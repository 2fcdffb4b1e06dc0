"""The values of options: text is read, or refused, before a database is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.durations import FORM, seconds_of
from offpath.model.json_text import decode_json

_SPAN = re.compile(r"(\d{1,6})(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Duration(click.FloatRange):
    """Seconds, given as a number or as a duration such as ``5m``."""

    name = "duration"

    def __init__(
        self, least: float | None = None, most: float | None = None, *, above: bool = False
    ) -> None:
        super().__init__(least, most, min_open=above)

    def _describe_range(self) -> str:
        """The bounds for help; click has ``x<=None`` where there are none."""
        bounded = self.min is not None or self.max is not None
        return super()._describe_range() if bounded else ""

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds. Where no bounds are, whoever takes a negative number refuses it."""
        try:
            seconds = float(value)
        except ValueError:
            found = seconds_of(str(value))
            if found is None:
                self.fail(f"{str(value)[:60]!r} is not a duration: {FORM}", param, ctx)
            seconds = found
        return float(super().convert(seconds, param, ctx))


def read_by(read: Callable[[str, str], Any]) -> Callable[..., Any]:
    """A callback that makes a value of an option's text, or of each text of a repeated one.

    It is a callback since click takes our errors, which are ``ValueError``, for its own in a type.
    """

    def convert(_context: click.Context, option: click.Parameter, given: Any) -> Any:  # noqa: ANN401 - any value
        name = option.opts[0]
        if isinstance(given, tuple):
            return tuple(read(one, name) for one in given)
        return None if given is None else read(given, name)

    return convert


def given_only(**given: Any) -> dict[str, Any]:  # noqa: ANN401 - any value
    """The options of a group that were given."""
    return {name: value for name, value in given.items() if value is not None and value != ()}


def _iso_time(text: str, option: str) -> datetime:
    try:
        return checks.aware(datetime.fromisoformat(text), option)
    except ValueError:  # an error of ours is one, too
        raise InvalidArgument(
            f"{option} takes an ISO time with a zone, as 2026-01-31T08:00Z, not {text[:60]!r}"
        ) from None


def _past_time(text: str, option: str) -> datetime:
    """A time as people write it: ISO 8601 with its zone, or how long ago, as ``90s`` or ``2h``."""
    if span := _SPAN.fullmatch(text):
        seconds = int(span[1]) * _UNITS[span[2]]
        return datetime.now(UTC) - timedelta(seconds=seconds)
    try:
        return _iso_time(text, option)
    except InvalidArgument:
        raise InvalidArgument(
            f"{option} takes a time with its zone, as 2026-11-27T09:00Z, or how long ago, as 90s, "
            f"15m, 2h or 3d; not {text[:60]!r}"
        ) from None


json_value = read_by(decode_json)
iso_time = read_by(_iso_time)
past_time = read_by(_past_time)


def pairs(rule: str) -> Callable[..., Any]:
    """A callback for NAME=VALUE; ``rule`` begins the error of another text."""

    def pair(text: str, _option: str) -> tuple[str, str]:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InvalidArgument(f"{rule}, not {name[:60]!r}")  # the value may be a secret
        return name, value

    return read_by(pair)


def once(given: Iterable[tuple[str, Any]], what: str) -> dict[str, Any]:
    """The values by their names. Raises ``InvalidArgument`` for a name that is given twice."""
    found: dict[str, Any] = {}
    for name, value in given:
        if name in found:
            raise InvalidArgument(f"{what} {name!r} is given twice")
        found[name] = value
    return found


until_option = click.option(
    "--until",
    callback=iso_time,
    metavar="TIME",
    help="The pause's end: an ISO time with a zone.  [default: until resumed]",
)
since_option = click.option(
    "--since",
    required=True,
    callback=past_time,
    metavar="TIME",
    help="The first time: 2026-11-27T09:00Z, or how long ago, as 90s, 2h or 3d.",
)
