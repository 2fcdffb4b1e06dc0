"""The causes of a shortfall: what the house gave away, is owed, and what nothing explains.

Cash backs the credits that were sold and are still out. Credits that nobody bought are backed by
nothing: those that sellers earned from promo credits (revenue pays for these, and may be below
zero), those that a refund gave back though its seller had been paid (a debt), and those made by
hand. The house puts in what they are worth by ``Fund``, or waits until the debts are paid. What is
missing beyond that is not from operations: rates that were raised, or altered books.
"""

from __future__ import annotations

from msgspec import Struct

from offpath.economy.ledger.obligations import position
from offpath.model.ledger.rates import Rates
from offpath.model.ledger.records import Totals


class Explained(Struct, frozen=True, kw_only=True):
    """A shortfall by its causes: credits in credit minor units, dollars in USD minor units."""

    debts: int
    """Credits that users owe."""
    receivable: int
    """Credits that are owed by nobody in particular."""
    given_away: int
    """Credits by which revenue is below zero: promo credits and written-off debts beyond fees."""
    by_hand: int
    """Credits that adjustments made."""
    unexplained: int
    """Dollars that are missing and that none of it explains."""


def explained(totals: Totals, rates: Rates) -> Explained:
    """The causes of a shortfall; all is zero where there is none."""
    missing = position(totals, rates).shortfall
    if not missing:
        return Explained(debts=0, receivable=0, given_away=0, by_hand=0, unexplained=0)
    held = totals.balances.get
    debts, receivable = held("owed", 0), held("receivable", 0)
    by_hand, revenue = held("opening_equity", 0), held("revenue", 0)
    unbacked = max(0, debts + receivable + by_hand - revenue)
    return Explained(
        debts=debts,
        receivable=max(0, receivable),
        given_away=max(0, -revenue),
        by_hand=max(0, by_hand),
        unexplained=max(0, missing - rates.par.ceil(unbacked)),
    )
