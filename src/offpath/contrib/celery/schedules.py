"""Celery's schedules of the beat: ``crontab`` and ``schedule``."""

from __future__ import annotations

from datetime import timedelta

from offpath.contrib.celery import catalogue
from offpath.contrib.celery.crontab import FIELDS, expression, joined
from offpath.contrib.celery.exceptions import NotInShim, refuse


class crontab:  # noqa: N801 - Celery's name
    """Times of the day as a cron expression; hours and minutes may be given by position."""

    def __init__(self, minute: object = "*", hour: object = "*", **fields: object) -> None:
        if unknown := fields.keys() - set(FIELDS):
            raise NotInShim(f"crontab({', '.join(sorted(unknown))}=): it has {', '.join(FIELDS)}")
        given = {"minute": minute, "hour": hour, **fields}
        texts = {name: joined(value) for name, value in given.items()}
        if all(texts.get(name, "*") != "*" for name in catalogue.EITHER):
            refuse(catalogue.BOTH_DAYS, "crontab(day_of_month=, day_of_week=)")
        self.cron = expression(texts)
        """The expression."""


class schedule:  # noqa: N801 - Celery's name
    """An interval."""

    def __init__(self, run_every: float | timedelta) -> None:
        self.run_every = run_every


def terms_of(given: object, zone: str) -> dict[str, object]:
    """The terms of a schedule here. Raises ``NotInShim`` for what is none of Celery's."""
    if isinstance(given, crontab):
        return {"cron": given.cron, "zone": zone}
    if isinstance(given, schedule):
        given = given.run_every
    if isinstance(given, timedelta | int | float) and not isinstance(given, bool):
        return {"every": given}
    raise NotInShim(
        f"a schedule is a crontab, a timedelta or seconds, not {type(given).__name__}; "
        "natively app.schedule(..., when=function)"
    )


def __getattr__(name: str) -> object:
    """Refuse a schedule of Celery's that is not here, by the word that is."""
    if name in catalogue.IMPORTS:
        raise ImportError(f"{name}: {catalogue.IMPORTS[name].text}", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
