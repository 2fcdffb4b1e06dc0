"""The metrics of an economy's sweeps in the registry of their app."""

from __future__ import annotations

from offpath.economy.ledger.obligations import Position
from offpath.runtime.metrics import Metrics

FINDINGS = ("settlement_unreported", "pending_past_timeout")
"""The findings about a payout."""


def known(metrics: Metrics) -> None:
    """Make what alerts look at before it has risen: they see a first event as a rise from 0."""
    metrics.counter("offpath_economy_breaches_total")
    metrics.counter("offpath_economy_verifications_total", outcome="mismatch")
    metrics.counter("offpath_economy_anchorings_total", outcome="failed")
    for finding in FINDINGS:
        metrics.counter("offpath_economy_payout_findings_total", finding=finding)


def run_made(metrics: Metrics, failed: int) -> None:
    """The heartbeat: one run of the sweeps, and how many of them failed."""
    metrics.counter("offpath_economy_runs_total", failed=str(failed)).add()


def payout_looked_at(metrics: Metrics, state: str, age: float) -> None:
    """A due payout, and for how many seconds it has been as it is."""
    metrics.summary("offpath_economy_payout_age_seconds", state=state).observe(age)


def payout_dead(metrics: Metrics, reason: str) -> None:
    """A payout was given up, and its reserve given back."""
    metrics.counter("offpath_economy_payouts_dead_total", reason=reason).add()


def payout_found(metrics: Metrics, finding: str) -> None:
    """A payout is not as it should be: nobody reported it, or it takes too long."""
    metrics.counter("offpath_economy_payout_findings_total", finding=finding).add()


def treasury(metrics: Metrics, found: Position) -> None:
    """The position of the platform, in minor units."""
    for what, value in (
        ("custodial", found.custodial),
        ("obligations", found.obligations),
        ("held", found.held),
        ("shortfall", found.shortfall),
    ):
        metrics.gauge("offpath_economy_treasury_minor", what=what).set(value)
    if found.shortfall:
        metrics.counter("offpath_economy_breaches_total").add()


def verified(metrics: Metrics, outcome: str) -> None:
    """A checkpoint was verified: ``ok`` or ``mismatch``."""
    metrics.counter("offpath_economy_verifications_total", outcome=outcome).add()


def anchored(metrics: Metrics, outcome: str) -> None:
    """A checkpoint was published outside: ``anchored`` or ``failed``."""
    metrics.counter("offpath_economy_anchorings_total", outcome=outcome).add()


def sealed(metrics: Metrics, outcome: str, seconds: float) -> None:
    """A seal was made or tried."""
    metrics.summary("offpath_economy_seal_seconds", outcome=outcome).observe(seconds)


def backlog(metrics: Metrics, due: int, age: float | None) -> None:
    """Events that wait to be relayed, and for how many seconds the oldest has; None: none does."""
    metrics.gauge("offpath_economy_relay_backlog").set(due)
    if age is not None:
        metrics.summary("offpath_economy_relay_age_seconds").observe(age)


def reconciled(metrics: Metrics, discrepancies: int) -> None:
    """A window was compared."""
    metrics.gauge("offpath_economy_discrepancies").set(discrepancies)


def promo_expired(metrics: Metrics, outcome: str) -> None:
    """A grant expired: ``reversed``, ``failed`` or ``dead_lettered``."""
    metrics.counter("offpath_economy_promos_total", outcome=outcome).add()
