"""Settlement runs: users are credited for a period, each record once."""

from offpath.errors import SettlementFailed
from offpath.health.settlement import SettlementRuns, paged
from offpath.model.settlement_counts import SettlementCounts, SettlementOutcome
from offpath.model.settlement_period import Period
from offpath.model.settlement_run import (
    AlreadyCredited,
    Credited,
    SettlementStatus,
    SettlementSummary,
)
from offpath.settlements import rates

__all__ = [
    "AlreadyCredited",
    "Credited",
    "Period",
    "SettlementCounts",
    "SettlementFailed",
    "SettlementOutcome",
    "SettlementRuns",
    "SettlementStatus",
    "SettlementSummary",
    "paged",
    "rates",
]
