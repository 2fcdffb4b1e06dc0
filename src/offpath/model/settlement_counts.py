"""The counts of a settlement run, and the outcome that they amount to.

They stand apart from the run: the error of a failed run holds them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.model.tally import Verdict


class SettlementOutcome(StrEnum):
    """The outcome of a run."""

    CLEAN = "clean"
    """Nothing was eligible, or all of it is credited."""
    DEGRADED = "degraded"
    """Some is credited and some failed."""
    FAILED = "failed"
    """All that was eligible failed, or the run could not come to its end."""


class FailedCredit(Struct, frozen=True, kw_only=True):
    """A record that is not credited."""

    record: str
    error: str
    """The type of the error; its text may hold secrets."""


class SettlementCounts(Struct, frozen=True, kw_only=True):
    """The counts of one run; ``attempted`` is always the sum of the other three.

    ``attempted`` counts every eligible record, those that were credited before included.
    """

    kind: str
    period: str
    started_at: datetime
    seconds: float
    credited: int = 0
    """Credited by this run."""
    skipped: int = 0
    """Credited before, by another run of the same kind and period."""
    failed: int = 0
    failures: tuple[FailedCredit, ...] = ()
    """The first hundred that failed."""
    stopped_by: str | None = None
    """The type of the error that ended the run before its end; None when it saw every record."""

    @property
    def attempted(self) -> int:
        """Eligible records: ``credited + skipped + failed``."""
        return self.credited + self.skipped + self.failed

    @property
    def outcome(self) -> SettlementOutcome:
        """The outcome of the run: with none credited, now or before, every failure is all."""
        if self.stopped_by is not None:
            return SettlementOutcome.FAILED
        if self.failed == 0:
            return SettlementOutcome.CLEAN
        if self.failed == self.attempted:
            return SettlementOutcome.FAILED
        return SettlementOutcome.DEGRADED

    @property
    def verdict(self) -> Verdict:
        """The same, as health has it: a run without anything eligible is empty."""
        if self.outcome is SettlementOutcome.CLEAN and self.attempted == 0:
            return Verdict.EMPTY
        return Verdict(self.outcome.value)

    @property
    def cause(self) -> str | None:
        """The reason why it is not clean, in one line without secrets; None when it is."""
        if self.outcome is SettlementOutcome.CLEAN:
            return None
        kinds = ", ".join(sorted({one.error for one in self.failures}))
        text = f"{self.failed} of {self.attempted} credits failed"
        if kinds:
            text = f"{text} ({kinds})"
        return f"{text}; stopped by {self.stopped_by}" if self.stopped_by else text

    def counts(self) -> dict[str, int]:
        """The counts by name."""
        return {
            "attempted": self.attempted,
            "credited": self.credited,
            "failed": self.failed,
            "skipped": self.skipped,
        }
