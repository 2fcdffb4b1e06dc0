"""The sweep that realises the platform's revenue, as far as it is the platform's own."""

from __future__ import annotations

from offpath.economy.ledger.levers import Lever
from offpath.economy.ledger.operations.steps_fees import fees_swept
from offpath.economy.sweeps.context import Pass
from offpath.economy.sweeps.standing import hindered, rests
from offpath.economy.sweeps.summaries import FeesSummary
from offpath.model.ledger.decision import Decided
from offpath.model.ledger.money import Money


async def fee_sweep(run: Pass) -> FeesSummary:
    """Take all that may be taken, once for each time; nothing while a mismatch
    stands, or while fees rest.
    """
    if await hindered(run) or await rests(run, Lever.FEES):
        return FeesSummary()
    op = fees_swept(f"fees:{run.at}", run.economy.rules, run.economy.new_id, now=run.at)
    return fees_of(await run.post(op))


def fees_of(decided: Decided) -> FeesSummary:
    """The result of a fee sweep."""
    if decided.receipt is None or decided.duplicate:
        return FeesSummary(skipped=True, duplicate=decided.duplicate)
    return FeesSummary(swept=Money.parse(decided.receipt.facts["amount"]), skipped=False)
