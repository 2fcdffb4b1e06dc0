"""Dead letters of all kinds, counted by whose they are, and what their number amounts to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

WITHIN = 900.0
"""Seconds in which a dead letter is new."""
FEW = 5
"""New dead letters below which their share says nothing."""


class Whose(StrEnum):
    """The kinds of things that have dead letters."""

    TASK = "task"
    """Its jobs died."""
    STREAM = "stream"
    """Its events could not be delivered."""
    SOURCE = "source"
    """Its messages could not be applied."""
    ROUTER = "router"
    """Its events could not be routed, and nobody has resolved that."""


class Deaths(Struct, frozen=True, kw_only=True):
    """The number of dead letters of something, counted up to the limit asked for."""

    whose: Whose
    name: str
    count: int


class Ends(Struct, frozen=True):
    """The number of dead letters among a number of ends."""

    dead: int
    ended: int

    def __add__(self, other: Ends) -> Ends:
        """Both together."""
        return Ends(self.dead + other.dead, self.ended + other.ended)


class Dying(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New dead letters of one task, stream, source or router, against their limits."""

    whose: Whose
    name: str
    dead: int
    share: float | None = None
    """Of all that ended meanwhile, as the live workers saw it; None when none of them saw any."""
    most: int | None = None
    """None: any number is borne."""
    most_share: float | None = None

    @property
    def reason(self) -> str | None:
        """The reason why that is unhealthy, in one line; None while it is not."""
        many = self.most is not None and self.dead > self.most
        if many or (self.dead >= FEW and _over(self.share, self.most_share)):
            return self.text
        return None

    @property
    def text(self) -> str:
        """The deaths, in one line."""
        share = "" if self.share is None else f", {self.share:.0%} of what ended"
        letters = "dead letter" if self.dead == 1 else "dead letters"
        return f"{self.dead} new {letters} of {self.whose} {self.name} in 15 minutes{share}"


def _over(share: float | None, most: float | None) -> bool:
    return share is not None and most is not None and share > most


def label(whose: Whose, name: str) -> str:
    """The key of what has dead letters in a worker's report."""
    return f"{whose} {name}"


def together(reports: Iterable[Mapping[str, Ends]]) -> dict[str, Ends]:
    """The counts of several workers, as one."""
    found: dict[str, Ends] = {}
    for report in reports:
        for key, ends in report.items():
            found[key] = found.get(key, Ends(0, 0)) + ends
    return found
