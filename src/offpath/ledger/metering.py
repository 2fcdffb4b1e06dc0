"""What an economy tells of its operations: counted and timed by kind, never by who or what."""

from __future__ import annotations

from offpath.ledger.outcome import Committed, Duplicate, Outcome
from offpath.model.ledger.faults import LedgerError
from offpath.runtime.metrics import Counter, Metrics, Summary


class OperationMeter:
    """Counts outcomes. A meter that raises never changes one."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._counters: dict[tuple[str, str, str], Counter] = {}
        self._times: dict[str, Summary] = {}

    def outcome(self, kind: str, outcome: Outcome | LedgerError, seconds: float) -> None:
        """One operation ended so, after so many seconds."""
        status, reason = told(outcome)
        counter = self._counters.get((kind, status, reason))
        if counter is None:
            counter = self._metrics.counter(
                "offpath_economy_submit_total", kind=kind, status=status, reason=reason
            )
            self._counters[kind, status, reason] = counter
        counter.add()
        times = self._times.get(kind)
        if times is None:
            times = self._metrics.summary("offpath_economy_submit_seconds", kind=kind)
            self._times[kind] = times
        times.observe(seconds)


def told(outcome: Outcome | LedgerError) -> tuple[str, str]:
    """Status and reason, as metrics and logs have them."""
    if isinstance(outcome, Committed):
        return "committed", ""
    if isinstance(outcome, Duplicate):
        return "duplicate", ""
    if isinstance(outcome, LedgerError):
        return "fault", outcome.code
    return "rejected", outcome.reason
