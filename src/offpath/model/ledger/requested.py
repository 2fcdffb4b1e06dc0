"""Payouts as the postings tell of them: which were asked for, at what quote, and which have ended.

Side rows are not hashed, postings are. So what a payout costs is read off here wherever it must not
be believed of its row.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from offpath.model.ledger.chart import PAYOUT_RESERVE
from offpath.model.ledger.faults import ChainBroken, LedgerError
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.records import OPEN_PAYOUTS, SideRow

REQUEST: Final = "requestPayout"
"""The kind of the posting that reserves a payout's credits."""
END: Final = ":end"
"""The ending that the id of the posting has which ends a payout, behind the payout's id."""
_MARK: Final = f'"kind":"{REQUEST}"'
"""Canonical JSON has no blanks, so this is how such metadata says so."""


class Requested(Struct, frozen=True, gc=False):
    """A payout that was asked for."""

    payout: str
    quote: int
    """The cost of the payout, in USD minor units."""
    reserve: int
    """The credits that it holds, in minor units."""

    def ended_by(self, posting: PostingRecord) -> bool:
        """True if a posting ends it: by its id, and since it takes all that is reserved."""
        return posting.id == self.payout + END and -reserved_by(posting) == self.reserve


def requested(posting: PostingRecord) -> Requested | None:
    """The payout that a posting asks for; None when it is not such a posting."""
    if _MARK not in posting.meta:
        return None
    return request_in(posting.facts, reserved_by(posting))


def request_in(facts: dict[str, Any], reserve: int) -> Requested | None:
    """The payout that metadata asks for, when its posting reserves so much."""
    payout, quote = facts.get("sagaId"), facts.get("payoutUsd")
    if facts.get("kind") != REQUEST or not isinstance(payout, str) or not isinstance(quote, str):
        return None
    try:
        amount = Money.parse(quote)
    except LedgerError:
        return None
    return Requested(payout, amount.minor, reserve) if amount.currency is Currency.USD else None


def reserved_by(posting: PostingRecord) -> int:
    """The amount that a posting adds to the reserve of payouts."""
    return -sum(link.amount for link in posting.links if link.account == PAYOUT_RESERVE)


def quote_of(row: SideRow | None) -> int:
    """The debt of a payout while it is open, in USD minor units."""
    if row is None or row.state not in OPEN_PAYOUTS:
        return 0
    if row.amount is None:
        raise ChainBroken(f"payout {row.id} has no quote")
    return row.amount
