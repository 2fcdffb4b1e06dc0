"""The obligations of the platform, and the cash that it may take: one formula for treasury, fee
sweep and prover.

Owed is, in USD minor units, ``floor((spendable + escrow) * par) + floor(earned * payout)`` and what
open payouts cost: by their rows or by the postings that asked for them, whichever is more. What
cash exceeds it may be taken, as far as there is revenue whose refund window has passed; anything
more is commingling.
"""

from __future__ import annotations

from msgspec import Struct

from offpath.model.ledger.rates import Rates
from offpath.model.ledger.records import Totals


class Position(Struct, frozen=True, kw_only=True):
    """The platform's cash against what it owes, in USD minor units."""

    custodial: int
    """Users' credits, in credit minor units."""
    earned: int
    """Sellers' credits, in credit minor units."""
    quotes: int
    """Of open payouts: by their rows or their postings, the larger sum."""
    obligations: int
    held: int
    """Trust cash."""

    @property
    def shortfall(self) -> int:
        """The cash that is missing; 0 when all is backed."""
        return max(0, self.obligations - self.held)

    @property
    def surplus(self) -> int:
        """The cash beyond the obligations."""
        return max(0, self.held - self.obligations)


def position(totals: Totals, rates: Rates) -> Position:
    """The position of the platform."""
    balances = totals.balances
    custodial = balances.get("spendable", 0) + balances.get("escrow", 0)
    earned = balances.get("earned", 0)
    return Position(
        custodial=custodial,
        earned=earned,
        quotes=totals.owed,
        obligations=rates.par.floor(custodial) + rates.payout.floor(earned) + totals.owed,
        held=balances.get("trust_cash", 0),
    )


def sweepable(totals: Totals, rates: Rates, matured_revenue: int) -> int:
    """The most credit minor units that a fee sweep may take: only those that pay whole cents, for
    what a sweep rounds off is realised by none after it.
    """
    covered = rates.par.credits_covered(position(totals, rates).surplus)
    most = max(0, min(covered, matured_revenue))
    return most - most % rates.par.step
