"""The number of lanes that one look of a lease reads."""

from __future__ import annotations

from typing import Final

# Each lane is a step in an index, which no lease is to make for all of ten thousand lanes.
FEWEST: Final = 16
MOST: Final = 64


class Breadth:
    """The lanes that the next look reads at most; behind them the look after it goes on.

    A few lanes that have enough give a lease as many jobs as many do, and cost less. A look that
    came out short doubles the number, and a full one halves it.
    """

    __slots__ = ("lanes",)

    def __init__(self) -> None:
        self.lanes = FEWEST

    def learn(self, *, short: bool) -> None:
        """Take in how the last look over some of the lanes went."""
        lanes = self.lanes * 2 if short else self.lanes // 2
        self.lanes = min(max(lanes, FEWEST), MOST)
