"""The sweep that takes back what is left of expired grants."""

from __future__ import annotations

import logging

from offpath.economy.ledger.operations.steps_promos import promo_expired, promo_failed
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.context import Pass, code_of
from offpath.economy.sweeps.rows import Found, after_failures, each_row, leased
from offpath.economy.sweeps.summaries import Coded, Expired, PromosSummary
from offpath.model.ledger.money import Money
from offpath.model.ledger.records import SideRow

HOLD = 60.0
"""Seconds that a pass has for its rows before others may take them."""


async def promos(run: Pass) -> PromosSummary:
    """End each expired grant; what was spent of it stays spent."""
    rows = await leased(run, "promo", HOLD)
    found = await each_row(run, rows, _step, _failed, "failed")
    for bucket, ended in found.items():
        for _ in ended:
            telemetry.promo_expired(run.metrics, bucket)
    if found:
        counts = {f"{bucket}_count": len(ended) for bucket, ended in found.items()}
        run.tell(logging.INFO, "worker.promos.swept", **counts)
    return PromosSummary(**found)


async def _step(run: Pass, row: SideRow) -> Found | None:
    decided = await run.post(promo_expired(row, run.economy.new_id, now=run.at))
    if decided.receipt is None:
        return None
    return "reversed", Expired(row.id, Money.parse(decided.receipt.facts["amount"]))


async def _failed(run: Pass, row: SideRow, error: Exception) -> Found | None:
    """Again later; one that fails too often is left for somebody to look at."""
    code = code_of(error)
    op = promo_failed(
        row,
        most=run.settings.max_promo_attempts,
        due_at=after_failures(run, row.attempts + 1),
        now=run.at,
    )
    decided = await run.post(op)
    if decided.receipt is None:
        return None
    dead = decided.receipt.facts["state"] == "DEAD"
    if dead:
        run.tell(logging.ERROR, "worker.promos.dead_lettered", id=row.id, code=code)
    return "dead_lettered" if dead else "failed", Coded(row.id, code)
