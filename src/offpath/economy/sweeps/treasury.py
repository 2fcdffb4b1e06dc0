"""The treasury sweep: whether what is owed is there. It reads, and posts nothing."""

from __future__ import annotations

import logging

from offpath.economy.ledger.obligations import Position, position
from offpath.economy.ledger.shortfalls import Explained, explained
from offpath.economy.sweeps import standing, telemetry
from offpath.economy.sweeps.context import Pass, code_of, retryable
from offpath.economy.sweeps.summaries import Breach, Coded, TreasurySummary
from offpath.model.ledger import money
from offpath.model.ledger.money import Currency, Money


async def treasury(run: Pass) -> TreasurySummary:
    """Compare cash with obligations; a shortfall is a finding, not an error."""
    try:
        totals = await run.store.ledger_totals()
        stands = position(totals, run.economy.rules.rates)
        causes = explained(totals, run.economy.rules.rates)
        await standing.backed(run, stands, causes)
    except Exception as error:  # noqa: BLE001 - told in the summary
        found = (Coded("treasury", code_of(error)),)
        again = retryable(error)
        return TreasurySummary(retrying=found if again else (), failed=() if again else found)
    telemetry.treasury(run.metrics, stands)
    breaches = _breaches(stands, causes)
    for breach in breaches:
        run.tell(
            logging.ERROR,
            "worker.treasury.under_backed",
            shortfall=str(breach.shortfall),
            required=str(breach.required),
            held=str(breach.held),
            **_causes(breach.explained),
        )
    run.tell(logging.DEBUG, "worker.treasury.swept")
    return TreasurySummary(position=stands, breaches=breaches)


def _causes(found: Explained) -> dict[str, str]:
    """The log text about the causes: those that there are, and what none of them explains."""
    credits = {"debts": found.debts, "receivable": found.receivable}
    credits |= {"given_away": found.given_away, "by_hand": found.by_hand}
    told = {name: money.text("CREDIT", minor) for name, minor in credits.items() if minor}
    return {**told, "unexplained": money.text("USD", found.unexplained)}


def _breaches(stands: Position, causes: Explained) -> tuple[Breach, ...]:
    if not stands.shortfall:
        return ()
    return (
        Breach(
            shortfall=Money(Currency.USD, stands.shortfall),
            required=Money(Currency.USD, stands.obligations),
            held=Money(Currency.USD, stands.held),
            explained=causes,
        ),
    )
