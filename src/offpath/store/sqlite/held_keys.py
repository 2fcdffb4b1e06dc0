"""Keys of limits in one pass of admission: what is known of each, and what the pass did to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from offpath.model.limit import RateSpec
from offpath.model.rate import decode_state
from offpath.store.sql import Row
from offpath.store.unreadable import UNREADABLE

UNTAKEN: Final = 5_000_000
"""Microseconds after which an admitted job that nobody took makes way."""
_FAR: Final = 2**62
"""The last turn of a key."""
rate_of: Final = msgspec.json.Decoder(RateSpec).decode


class Last(NamedTuple):
    """The last held job of a queue and a key, as far as another is to stand behind it."""

    priority: int
    run_at: int


class Took(NamedTuple):
    """The change that a pass has made to a key: the state of its rate, and its turn."""

    name: str
    rate_state: str | None
    turn: int


class HeldKey(Struct):
    """A key with held jobs, in one pass."""

    name: str
    max_running: int | None
    rate: RateSpec | None
    rate_state: str | None
    admitted: int
    closed_until: int | None
    paused: bool
    turn: int
    line: bool
    """True if it stands for jobs with several limits: then these have the room."""

    def is_closed(self, now: int) -> bool:
        """True if nothing may be admitted now."""
        return self.paused or (self.closed_until is not None and self.closed_until > now)

    def room(self, now: int, limit: int) -> int:
        """The number of further jobs that may be admitted, the rate aside, and at most
        ``limit``.
        """
        if self.is_closed(now):
            return 0
        return limit if self.max_running is None else self.allowed(limit)

    def allowed(self, limit: int) -> int:
        """The number that fits under ``max_running``, and at most ``limit``."""
        if self.max_running is None:
            return limit
        return min(max(self.max_running - self.admitted, 0), limit)


def held_key(row: Row) -> HeldKey:
    """A key by its row. One that cannot be read lets nothing in, and keeps back nobody else."""
    name, max_running, rate, state, admitted, closed_until, paused, turn, parts = row
    try:
        spec, _ = None if rate is None else rate_of(rate), decode_state(state)
    except UNREADABLE:
        spec, state, paused = None, None, True
    return HeldKey(
        name,
        max_running,
        spec,
        state,
        admitted,
        closed_until,
        bool(paused),
        # A row may hold any number, and the turn behind it must still fit into a column.
        min(turn, _FAR),
        parts > 0,
    )


def behind(lasts: Iterable[Last], now: int) -> tuple[int, int]:
    """The priority and the time of a place behind all of these."""
    rows = list(lasts)
    return min(row.priority for row in rows), max(now, *(row.run_at for row in rows))


def next_turn(now: int, keys: Iterable[HeldKey]) -> int:
    """A turn beyond those of these keys, also where the clock was set back: a key that got its
    share goes behind all others.
    """
    return max((now, *(1 + each.turn for each in keys)))
