"""Limits that one job has together: their joined key, and who may go when all must have room.

Jobs with the same limits at the same costs stand in one line, whose key is that of its parts in
one text. So a line whose tenant is full is passed over as a whole, and hides no other line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from offpath.model.limit import LimitPart, RateSpec
from offpath.model.rate import RateState, Taken, take

_BETWEEN: Final = "\n"
_COST: Final = "\t"
# No key of a caller has one of these, since keys are printable.
_MARKS: Final = (_BETWEEN, _COST)
_ALL: Final = 2**40
"""More starts than a rate ever allows."""


def joined(parts: Sequence[LimitPart]) -> str:
    """The key of the line of these."""
    return _BETWEEN.join(
        part.key if part.cost == 1 and len(parts) > 1 else f"{part.key}{_COST}{part.cost}"
        for part in parts
    )


def is_joined(key: str) -> bool:
    """True if it stands for several limits, or one at a cost."""
    return _BETWEEN in key or _COST in key


@lru_cache(maxsize=4096)
def costs_of(key: str) -> tuple[tuple[str, int], ...]:
    """The limits that a key stands for, and what a job takes of each; a plain key is its own."""
    if not is_joined(key):
        return ((key, 1),)
    pairs = (part.partition(_COST) for part in key.split(_BETWEEN))
    return tuple((name, int(cost) if cost.isdecimal() else 1) for name, _, cost in pairs)


def keys_of(key: str) -> tuple[str, ...]:
    """The limits that a key stands for, in the order of the caller."""
    return tuple(name for name, _ in costs_of(key))


def first_of(key: str) -> str:
    """The limit that a cool-down of its job is about: the one that was named first."""
    return costs_of(key)[0][0]


def with_parts(keys: Iterable[str]) -> list[str]:
    """The given keys and those that they stand for, each once and sorted."""
    names = set(keys)
    return sorted(names.union(*(keys_of(key) for key in names if is_joined(key))))


def shown(key: str | None) -> str | None:
    """The key as people read it: ``api + tenant:7 ×3``."""
    if key is None or not is_joined(key):
        return key
    return " + ".join(name if cost == 1 else f"{name} ×{cost}" for name, cost in costs_of(key))


class Room(Struct):
    """The rest of a limit, while a pass of admission takes of it."""

    left: float
    """Of ``max_running``; ``inf`` where only the rate bounds it; 0 while it is closed."""
    rate: RateSpec | None = None
    state: RateState | None = None
    starts: float = math.inf
    """The starts that the rate allows now."""
    taken: int = 0
    refused: int = 0
    """The smallest cost that the rate alone refused."""

    @classmethod
    def of(cls, left: float, rate: RateSpec | None, state: RateState | None, now: float) -> Room:
        """The room at a time, in seconds of the store's clock."""
        if rate is None:
            return cls(left)
        return cls(left, rate, state, take(rate, state, now, _ALL).granted)

    def give(self, cost: int) -> None:
        """Take so much of it."""
        self.left -= cost
        self.starts -= cost
        self.taken += cost

    def after(self, now: float) -> Taken | None:
        """The state of its rate from now on; None where it has none, or nothing was taken."""
        if self.rate is None or not self.taken:
            return None
        return take(self.rate, self.state, now, self.taken)

    def wait(self, now: float) -> float | None:
        """Seconds until the rate allows what it refused; None where it refused nothing."""
        if self.rate is None or not self.refused:
            return None
        return take(self.rate, self.state, now, self.taken, self.refused).next_in


def took(line: str, rooms: Mapping[str, Room]) -> bool:
    """Take what a job of this line needs of all of its limits, or nothing of any."""
    costs = costs_of(line)
    if any(key not in rooms or rooms[key].left < cost for key, cost in costs):
        return False
    late = [(rooms[key], cost) for key, cost in costs if rooms[key].starts < cost]
    for room, cost in late:
        room.refused = min(room.refused or cost, cost)
    for key, cost in () if late else costs:
        rooms[key].give(cost)
    return not late


def admitted(lines: Iterable[str], rooms: Mapping[str, Room], most: int) -> list[int]:
    """The positions of those who may go, at most so many, of jobs in their order, each named by the
    key of its line.

    A line that does not fit is over for this pass, since rooms only shrink in it.
    """
    gone, over = list[int](), set[str]()
    for at, line in enumerate(lines):
        if len(gone) >= most:
            break
        if line in over:
            continue
        if took(line, rooms):
            gone.append(at)
        else:
            over.add(line)
    return gone
