"""The sweep that charges the next period of subscriptions."""

from __future__ import annotations

import logging
from typing import Any

from offpath.economy.ledger.operations.steps_subscriptions import (
    subscription_failed,
    subscription_lapsed,
    subscription_renewed,
)
from offpath.economy.sweeps.context import Pass, code_of, retryable
from offpath.economy.sweeps.rows import Found, after_failures, each_row, leased
from offpath.economy.sweeps.summaries import Coded, SubscriptionsSummary
from offpath.model.ledger.records import Receipt, SideRow

HOLD = 60.0
"""Seconds that a pass has for its rows before others may take them."""


async def subscriptions(run: Pass) -> SubscriptionsSummary:
    """Charge each due subscription one period, let it lapse, or put it off."""
    rows = await leased(run, "subscription", HOLD)
    return SubscriptionsSummary(**await each_row(run, rows, _step, _failed, "retrying"))


async def _step(run: Pass, row: SideRow) -> Found | None:
    op = subscription_renewed(row, run.economy.rules, run.economy.new_id, now=run.at)
    decided = await run.post(op)
    return None if decided.receipt is None else _found(run, row, decided.receipt)


def _found(run: Pass, row: SideRow, receipt: Receipt) -> Found:
    """The bucket of what a step came to."""
    facts: dict[str, Any] = receipt.facts
    match facts["outcome"]:
        case "charged":
            return "charged", row.id
        case "lapsed":
            run.tell(logging.WARNING, "worker.subscriptions.lapsed", id=row.id, code=facts["code"])
            return "lapsed", row.id
        case _:
            return "retrying", Coded(row.id, facts["code"])


async def _failed(run: Pass, row: SideRow, error: Exception) -> Found | None:
    """Again later, until it has failed too often; at once over when that could not help."""
    code, economy = code_of(error), run.economy
    if retryable(error):
        op = subscription_failed(
            row,
            code,
            economy.new_id,
            most=run.settings.max_subscription_attempts,
            due_at=after_failures(run, row.attempts + 1),
            now=run.at,
        )
        decided = await run.post(op)
        return None if decided.receipt is None else _found(run, row, decided.receipt)
    decided = await run.post(subscription_lapsed(row, code, economy.new_id, now=run.at))
    if decided.receipt is None:
        return None
    run.tell(logging.ERROR, "worker.subscriptions.dead_lettered", id=row.id, code=code)
    return "dead_lettered", Coded(row.id, code)
