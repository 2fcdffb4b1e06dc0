"""The sweeps of an app: checked when they are registered, in the order in which they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model import checks

MOST_ROWS = 100_000
SHORTEST_REST = 0.01
LIMIT, EVERY, ROW_TIMEOUT, CLAIM_TIMEOUT = 100, 60.0, 10.0, 60.0


class SweepInfo(Struct, frozen=True, kw_only=True):
    """A sweep as it was registered. Durations in seconds."""

    name: str
    every: float = EVERY
    """The longest rest between two passes of a worker."""
    limit: int = LIMIT
    """Most rows of one pass."""
    row_timeout: float = ROW_TIMEOUT
    """The time that one row may take."""
    claim_timeout: float = CLAIM_TIMEOUT
    """The time that the claim, or a pass that is not row by row, may take."""
    window: float | None = None
    """The age that the last success of its loop may have; None: the larger of 60 and three rests.
    One whose passes may well take longer needs it: a turn that is longer is cancelled as hung.
    """
    shared: bool = False
    """True if every worker runs it, instead of one at a time."""
    own: bool = False
    """True if it is the engine's own."""
    by_rows: bool = True
    """True if it takes rows one by one."""


class Sweep(Struct, frozen=True, kw_only=True):
    """A registered sweep: what it is told to do, and the object that does it."""

    info: SweepInfo
    target: Any
    driven: bool = True
    """True if a worker needs a loop for it; the jobs worker drives some by itself."""


class SweepRegistry:
    """Sweeps by name, in the order in which they were registered."""

    def __init__(self, own: Callable[[], tuple[Sweep, ...]] = tuple) -> None:
        self._own = own
        """Makes those that come first, when somebody first asks: importing an app needs none."""
        self._made: dict[str, Sweep] | None = None

    # Not functools.cached_property: before Python 3.12 it holds a lock that a fork may inherit.
    @property
    def _sweeps(self) -> dict[str, Sweep]:
        if self._made is None:
            self._made = {sweep.info.name: sweep for sweep in self._own()}
        return self._made

    def add(self, sweep: Sweep) -> None:
        """Register one more. Raises ``InvalidArgument`` when its name is taken."""
        name = sweep.info.name
        if name in self._sweeps:
            raise InvalidArgument(f"there is a sweep {name!r} already: give this one another name")
        self._sweeps[name] = sweep

    def all(self) -> tuple[Sweep, ...]:
        """Every sweep, in the order in which they run."""
        return tuple(self._sweeps.values())

    def list(self) -> list[SweepInfo]:
        """The registration of every sweep, in the order in which they run."""
        return [sweep.info for sweep in self._sweeps.values()]

    def __contains__(self, name: object) -> bool:
        """True if there is a sweep of this name."""
        return name in self._sweeps

    def __len__(self) -> int:
        """The number that there are, the engine's own included."""
        return len(self._sweeps)


def sweep_info(
    name: str,
    target: object,
    *,
    every: float | timedelta,
    limit: int,
    row_timeout: float | timedelta,
    claim_timeout: float | timedelta,
    shared: bool,
) -> SweepInfo:
    """The checked terms of a user's sweep. Raises ``InvalidArgument``."""
    name = checks.name(name, "sweep name")
    return SweepInfo(
        name=name,
        every=_positive(every, "every"),
        limit=checks.integer(limit, "limit", least=1, most=MOST_ROWS),
        row_timeout=_positive(row_timeout, "row_timeout"),
        claim_timeout=_positive(claim_timeout, "claim_timeout"),
        shared=bool(shared),
        by_rows=_by_rows(name, target),
    )


def made(name: str, given: object) -> object:
    """The object of a sweep: an instance as it is, a class called without arguments."""
    if not inspect.isclass(given):
        return given
    try:
        inspect.signature(given).bind()
    except TypeError as error:
        raise InvalidArgument(
            f"the sweep {name!r} cannot be made without arguments ({error}): register an instance, "
            f"app.sweep({name!r})({given.__name__}(...))"
        ) from error
    except ValueError:
        pass  # a class that tells no signature: calling it will show
    return given()


def _by_rows(name: str, target: object) -> bool:
    has = {each for each in ("claim", "advance", "run") if callable(getattr(target, each, None))}
    if has == {"run"}:
        return False
    if has == {"claim", "advance"}:
        return True
    raise InvalidArgument(
        f"the sweep {name!r} needs `async claim(self, ctx, now, limit)` and "
        "`async advance(self, ctx, row, now)`, or instead of both `async run(self, ctx, now, "
        f"limit)`; {type(target).__name__} has {', '.join(sorted(has)) or 'none of them'}"
    )


def _positive(value: float | timedelta, what: str) -> float:
    seconds = checks.seconds(value, what)
    if seconds < SHORTEST_REST:
        raise InvalidArgument(f"{what} must be at least {SHORTEST_REST} seconds, not {seconds:g}")
    return seconds
