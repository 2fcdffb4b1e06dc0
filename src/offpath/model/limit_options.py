"""Limits as callers say them: how many jobs of a key run at once, how many start in a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.joined_limits import joined
from offpath.model.limit import Algorithm, LimitPart, LimitSpec, RateSpec

MOST_RUNNING = 1_000_000
"""Largest ``max_running`` and count of a rate: more limits nothing."""
MOST_LIMITS = 8
"""Limits of one job at most."""
MOST_JOINED = 1000
"""Bytes of the keys of one job's limits at most, where it has several."""
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


class _LimitKey(Struct, frozen=True):
    """The part of a limit that may be given by its place."""

    key: str | None = None


class Limit(_LimitKey, frozen=True, kw_only=True):
    """``Limit("stripe", max_running=20, rate=Rate(100, per=1))``: over the whole fleet.

    At most ``max_running`` jobs of the key run at once, and no more start than ``rate`` allows.
    Jobs of several tasks may share a key; without one it is the task's name. What the last
    enqueue of a key says holds for all of its jobs. ``cost`` is what one job takes of both, 1 by
    default.
    """

    max_running: int | None = None
    rate: Rate | None = None
    cost: int = 1


LimitChoice = Limit | Sequence[Limit] | Literal[False] | None
"""One limit or several, False to lift those of a lower level, None to leave it to that."""


def checked_limit(value: object) -> LimitSpec | Literal[False] | None:
    """A limit in one form; its key is ``OWN_KEY`` if one has no key. Raises ``InvalidArgument``."""
    if value is None or value is False:
        return value
    if not isinstance(value, (list, tuple)):
        return _spec_of((_checked_part(value),))
    if not value:
        raise InvalidArgument("limit=[] names no limit: write limit=False to lift what a task says")
    if len(value) > MOST_LIMITS:
        raise InvalidArgument(f"a job has at most {MOST_LIMITS} limits, not {len(value)}")
    return _spec_of(tuple(_checked_part(each) for each in value))


def _spec_of(parts: tuple[LimitPart, ...]) -> LimitSpec:
    """One limit of these, which stands by itself where a job has no other and takes 1 of it."""
    first = parts[0]
    if len(parts) == 1 and first.cost == 1:
        return LimitSpec(key=first.key, max_running=first.max_running, rate=first.rate)
    if any(part.key == OWN_KEY for part in parts):
        return LimitSpec(key=OWN_KEY, parts=parts)
    return LimitSpec(key=_joined(parts), parts=parts)


def _joined(parts: tuple[LimitPart, ...]) -> str:
    keys = [part.key for part in parts]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise InvalidArgument(f"the limit {twice!r} is given twice: give one, with a cost")
    key = joined(parts)
    # An index holds it beside one of the keys.
    if (size := len(key.encode())) > MOST_JOINED:
        raise InvalidArgument(
            f"the keys of a job's limits have {size} bytes together, over the limit of "
            f"{MOST_JOINED}: shorten them"
        )
    return key


def _checked_part(value: object) -> LimitPart:
    """One limit of a job."""
    if not isinstance(value, Limit):
        raise InvalidArgument(
            f"limit must be an offpath.Limit, not {type(value).__name__}{_hint(value)}"
        )
    if value.max_running is None and value.rate is None:
        raise InvalidArgument(
            "a limit needs max_running or rate: write Limit(max_running=10), or Rate(100, per=60)"
        )
    most, rate = _max_running(value.max_running), checked_rate(value.rate)
    return LimitPart(
        key=OWN_KEY if value.key is None else limit_key(value.key),
        max_running=most,
        rate=rate,
        cost=_cost(value.cost, most, rate),
    )


def _cost(value: int, most: int | None, rate: RateSpec | None) -> int:
    cost = checks.integer(value, "the cost of a limit", least=1, most=MOST_RUNNING)
    if most is not None and cost > most:
        raise InvalidArgument(
            f"a cost of {cost} never fits in max_running={most}: lower it, or raise max_running"
        )
    if rate is not None and cost > rate.count:
        raise InvalidArgument(
            f"a cost of {cost} never fits in a rate of {rate.count}: lower it, or raise the rate"
        )
    return cost


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


def limit_of(task: str, spec: LimitSpec) -> LimitSpec:
    """The limit with its key: the task's name where none was given."""
    if spec.key != OWN_KEY:
        return spec
    if not spec.parts:
        return replace(spec, key=task)
    own = (replace(part, key=task) if part.key == OWN_KEY else part for part in spec.parts)
    return _spec_of(tuple(own))


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
