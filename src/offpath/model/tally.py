"""Tallies: what one bounded pass did, row by row, and what that means for health."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """What one iteration of a loop amounts to."""

    CLEAN = "clean"
    """Something was due, and all of it moved."""
    EMPTY = "empty"
    """Nothing was due."""
    DEGRADED = "degraded"
    """Some of it failed."""
    FAILED = "failed"
    """All of it failed, or the iteration itself did."""


class Tally(Struct, frozen=True, kw_only=True):
    """The rows of one pass by what became of them.

    ``buckets`` maps an outcome's name to the ids of its rows, in the order they were handled;
    ``bad`` names the buckets that are failures. ``skipped`` says why there was nothing to do for
    a reason other than that nothing was due.
    """

    buckets: dict[str, tuple[str, ...]] = {}
    bad: frozenset[str] = frozenset({"failed", "dead_lettered"})
    skipped: str | None = None
    more: bool = False
    """Whether there may be more due rows at once."""

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are in each bucket."""
        return {name: len(ids) for name, ids in self.buckets.items()}

    @property
    def total(self) -> int:
        """How many rows were looked at."""
        return sum(map(len, self.buckets.values()))

    @property
    def failures(self) -> int:
        """How many of them failed."""
        return sum(len(ids) for name, ids in self.buckets.items() if name in self.bad)

    @property
    def verdict(self) -> Verdict:
        """What the pass amounts to."""
        total, failures = self.total, self.failures
        if total == 0:
            return Verdict.EMPTY
        if failures == 0:
            return Verdict.CLEAN
        return Verdict.FAILED if failures == total else Verdict.DEGRADED


class Turn(Struct, frozen=True, kw_only=True):
    """What a loop's iteration says of itself: how it went, and when to go on.

    ``again``: True to go on at once, seconds until the next turn, None for the loop's interval.
    """

    verdict: Verdict = Verdict.CLEAN
    counts: dict[str, int] = {}
    again: bool | float | None = None
    cause: str | None = None
    """Why it is degraded or failed, in one line without secrets."""
