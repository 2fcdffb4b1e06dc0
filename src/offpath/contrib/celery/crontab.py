"""Celery's crontab as the text of a cron expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


def joined(value: object) -> str:
    """The text of a field. Raises TypeError for what Celery does not take, either."""
    if isinstance(value, str):
        return value.replace(" ", "")
    if isinstance(value, bool):
        raise TypeError("a field of a crontab is a number, a text or several numbers")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Iterable):
        return ",".join(map(str, sorted(value)))
    raise TypeError("a field of a crontab is a number, a text or several numbers")


def expression(fields: Mapping[str, str]) -> str:
    """The expression of five fields; those that are not given are ``*``."""
    return " ".join(fields.get(name, "*") for name in FIELDS)
