"""Metrics of an economy's operations: counted and timed by kind, never by who or what."""

from __future__ import annotations

from offpath.economy.ledger.operations.families import FAMILIES
from offpath.economy.ledger.outcome import Committed, Duplicate, Outcome, Rejected
from offpath.model.ledger.faults import LedgerError
from offpath.runtime.metrics import Counter, Metrics, Summary


class OperationMeter:
    """Counts outcomes, by the kind of what was asked."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._committed: dict[type, tuple[str, Counter, Summary]] = {}

    def outcome(self, request: type, outcome: Outcome | LedgerError, seconds: float) -> str:
        """One operation ended so, after so many seconds; gives its kind."""
        known = self._committed.get(request)
        if known is None:
            known = self._committed[request] = self._series(request)
        kind, committed, times = known
        if isinstance(outcome, Committed):
            committed.add()
        else:
            status, reason = told(outcome)
            self._counter(kind, status, reason).add()
        times.observe(seconds)
        return kind

    def _series(self, request: type) -> tuple[str, Counter, Summary]:
        family = FAMILIES.get(request)
        kind = "unknown" if family is None else family.kind
        times = self._metrics.summary("offpath_economy_submit_seconds", kind=kind)
        return kind, self._counter(kind, "committed", ""), times

    def _counter(self, kind: str, status: str, reason: str) -> Counter:
        return self._metrics.counter(
            "offpath_economy_submit_total", kind=kind, status=status, reason=reason
        )


def told(outcome: Duplicate | Rejected | LedgerError) -> tuple[str, str]:
    """Status and reason, as metrics have them."""
    if isinstance(outcome, Duplicate):
        return "duplicate", ""
    if isinstance(outcome, LedgerError):
        return "fault", outcome.code
    return "rejected", outcome.reason
