"""Limits as callers say them: how many jobs of a key run at once, how many start in a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.limit import Algorithm, LimitSpec, RateSpec

MOST_RUNNING = 1_000_000
"""Largest ``max_running`` and count of a rate: more limits nothing."""
OWN_KEY = ""
"""Stands for the task's name in a checked limit that names no key."""


class Rate(Struct, frozen=True):
    """``Rate(100, per=60)``: at most 100 starts a minute. ``per`` is seconds or a timedelta.

    ``algorithm``: ``token_bucket`` (the default: ``count`` at once, then one each ``per / count``),
    ``fixed_window`` (``count`` in a window that opens with the first start) or ``sliding_window``
    (aligned windows, the one before weighs by what is left of it).
    """

    count: int
    per: float | timedelta
    algorithm: Algorithm | Literal["token_bucket", "fixed_window", "sliding_window"] = (
        Algorithm.TOKEN_BUCKET
    )


class Limit(Struct, frozen=True, kw_only=True):
    """``Limit(key="stripe", max_running=20, rate=Rate(100, per=1))``: over the whole fleet.

    At most ``max_running`` jobs of the key run at once, and no more start than ``rate`` allows.
    Jobs of several tasks may share a key; without one it is the task's name. What the last
    enqueue of a key says holds for all of its jobs.
    """

    key: str | None = None
    max_running: int | None = None
    rate: Rate | None = None


def checked_limit(value: object) -> LimitSpec | Literal[False] | None:
    """A limit in one form; its key is ``OWN_KEY`` if it names none. Raises ``InvalidArgument``."""
    if value is None or value is False:
        return value
    if not isinstance(value, Limit):
        raise InvalidArgument(
            f"limit must be an offpath.Limit, not {type(value).__name__}{_hint(value)}"
        )
    if value.max_running is None and value.rate is None:
        raise InvalidArgument(
            "a limit needs max_running or rate: write Limit(max_running=10), or Rate(100, per=60)"
        )
    return LimitSpec(
        key=OWN_KEY if value.key is None else limit_key(value.key),
        max_running=_max_running(value.max_running),
        rate=checked_rate(value.rate),
    )


def _hint(value: object) -> str:
    if isinstance(value, str):
        return f"; write limit=Limit(key={value!r}, max_running=1)"
    if callable(value):
        return "; a function of the arguments is given to the task: @app.task(limit=function)"
    return ""


def checked_rate(value: Any) -> RateSpec | None:  # noqa: ANN401 - whatever the caller gave
    """A rate in one form. Raises ``InvalidArgument``."""
    if value is None:
        return None
    if not isinstance(value, Rate):
        raise InvalidArgument(
            f"rate must be an offpath.Rate, not {type(value).__name__}: write Rate(100, per=60)"
        )
    count = checks.integer(value.count, "the count of a rate", least=1, most=MOST_RUNNING)
    per = checks.seconds(value.per, "per")
    if per == 0:
        raise InvalidArgument("per must be more than 0 seconds: Rate(100, per=60) is 100 a minute")
    return RateSpec(count=count, per=per, algorithm=_algorithm(value.algorithm))


def limit_key(value: object) -> str:
    """The key of a limit. Raises ``InvalidArgument``."""
    key = checks.text(value, "limit key", longest=checks.MAX_KEY)
    if not key.isprintable():
        raise InvalidArgument(
            f"limit key must not have control or unprintable characters: {key[:80]!a}"
        )
    return key


def fair_key(value: object) -> str | None:
    """A key of fair shares, None for none. Raises ``InvalidArgument``."""
    return None if value is None else checks.text(value, "fair_key", longest=checks.MAX_KEY)


def limit_of(task: str, spec: LimitSpec | None) -> LimitSpec | None:
    """The limit with its key: the task's name where none was given."""
    return replace(spec, key=task) if spec is not None and spec.key == OWN_KEY else spec


def _max_running(value: int | None) -> int | None:
    if value is None:
        return None
    return checks.integer(value, "max_running", least=1, most=MOST_RUNNING)


def _algorithm(value: str) -> Algorithm:
    try:
        return Algorithm(value)
    except ValueError as error:
        raise InvalidArgument(
            f"the algorithm of a rate must be one of {', '.join(Algorithm)}, not {value!r}"
        ) from error
