"""Tallies: what one bounded pass did, row by row, and what that means for health."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct


class Verdict(StrEnum):
    """The verdict on one iteration of a loop."""

    CLEAN = "clean"
    """Something was due, and all of it moved."""
    EMPTY = "empty"
    """Nothing was due."""
    DEGRADED = "degraded"
    """Some of it failed."""
    FAILED = "failed"
    """All of it failed, or the iteration itself did."""


BAD_BUCKETS = frozenset({"failed", "dead_lettered", "unrecorded", "timed_out", "over_limit"})
"""The buckets that are failures, unless a tally says otherwise."""


FOUND_DEAD = "found_dead"
"""The fact of a rescue that names workers of which it was the first to see that they are dead."""


class Tally(Struct, frozen=True, kw_only=True):
    """The rows of one pass by what became of them.

    ``buckets`` maps an outcome's name to the ids of its rows, in the order they were handled;
    ``bad`` names the buckets that are failures. ``skipped`` says why there was nothing to do for
    a reason other than that nothing was due.
    """

    buckets: dict[str, tuple[str, ...]] = {}
    bad: frozenset[str] = BAD_BUCKETS
    skipped: str | None = None
    more: bool = False
    """True if there may be more due rows at once."""
    counted: dict[str, int] = {}
    """Rows by outcome where a whole set moved at once and nobody knows their ids."""
    reasons: dict[str, str] = {}
    """The reason why a row failed, by its id: an error's code or its type, never its text."""
    facts: dict[str, Any] = {}
    """The further facts of the pass, as plain JSON values."""
    postings: tuple[str, ...] = ()
    """Ids of the ledger's transactions that the pass committed."""
    summary: Any = None
    """The pass's report in a shape of its own, for callers in this process."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows that are in each bucket."""
        sizes = {name: len(ids) for name, ids in self.buckets.items()}
        for name, number in self.counted.items():
            sizes[name] = sizes.get(name, 0) + number
        return sizes

    @property
    def total(self) -> int:
        """The number of rows that were looked at."""
        return sum(self.counts.values())

    @property
    def failures(self) -> int:
        """The number of them that failed."""
        return sum(number for name, number in self.counts.items() if name in self.bad)

    @property
    def moved(self) -> int:
        """The number of them that did not fail."""
        return self.total - self.failures

    @property
    def verdict(self) -> Verdict:
        """The verdict on the pass."""
        total, failures = self.total, self.failures
        if total == 0:
            return Verdict.EMPTY
        if failures == 0:
            return Verdict.CLEAN
        return Verdict.FAILED if failures == total else Verdict.DEGRADED


class Turn(Struct, frozen=True, kw_only=True):
    """The report of a loop's iteration on itself: how it went, and when to go on.

    ``again``: True to go on at once, seconds until the next turn, None for the loop's interval.
    """

    verdict: Verdict = Verdict.CLEAN
    counts: dict[str, int] = {}
    again: bool | float | None = None
    cause: str | None = None
    """The reason why it is degraded or failed, in one line without secrets."""
    skipped: str | None = None
    """The reason why it did nothing at all; None where it did what it is for."""


class SweepResult(Struct, frozen=True, kw_only=True):
    """The result of a sweep's pass. ``error`` is set when the sweep failed, not only rows."""

    name: str
    tally: Tally = Tally()
    error: str | None = None
    """The code of what it raised; the type's name for what is not offpath's own."""
    retryable: bool = False
    """True if the next pass may well succeed without a change."""
    seconds: float = 0.0
    """The time that the pass took."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the pass."""
        return Verdict.FAILED if self.error is not None else self.tally.verdict

    @property
    def cause(self) -> str | None:
        """The reason why it is degraded or failed, in one line without secrets; None otherwise."""
        if self.error is not None:
            return f"the sweep {self.name} failed: {self.error}"
        tally = self.tally
        if not tally.failures:
            return None
        counts = tally.counts.items()
        bad = ", ".join(f"{number} {name}" for name, number in counts if name in tally.bad)
        return f"{tally.failures} of {tally.total} rows went wrong: {bad}"


class SweepRun(Struct, frozen=True, kw_only=True):
    """The report of ``worker.run_once()``: each sweep's result in the order in which they ran."""

    batch: tuple[SweepResult, ...] = ()
    postings: tuple[str, ...] = ()
    """Ids of the ledger's transactions that the run committed; none without an economy."""

    @property
    def verdict(self) -> Verdict:
        """The whole run: failed when all that had something to do failed, degraded when some."""
        return verdict_of([result.verdict for result in self.batch])

    def __getitem__(self, name: str) -> SweepResult:
        """The result of the sweep of this name; raises KeyError when it did not run."""
        for result in self.batch:
            if result.name == name:
                return result
        raise KeyError(name)


def verdict_of(parts: Sequence[Verdict]) -> Verdict:
    """The sum of several verdicts; those that were empty do not count."""
    busy = [part for part in parts if part is not Verdict.EMPTY]
    if not busy:
        return Verdict.EMPTY
    if all(part is Verdict.CLEAN for part in busy):
        return Verdict.CLEAN
    return Verdict.FAILED if all(part is Verdict.FAILED for part in busy) else Verdict.DEGRADED
