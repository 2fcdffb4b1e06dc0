"""The rolling proof: old postings are proved again, slice by slice, in a fixed cycle.

A seal believes what was sealed before it, and a proof of everything costs as much as everything.
So each run proves one slice of what was posted before the cycle began. Which slice it is follows
from the time alone: nothing is kept, and whoever runs it next goes on.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.economy.ledger.recent_proof import RecentProof, prove_left
from offpath.errors import InvalidArgument
from offpath.model import checks

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerStore

MOST_SLICES = 1_000_000
"""More are shorter than any run."""


class ProofTurn(Struct, frozen=True, kw_only=True):
    """The slice whose turn it is, of a cycle."""

    number: int
    """From 1."""
    of: int
    begun: datetime
    """The begin of the cycle: what was posted later is not old yet."""

    def of_time(self, first: datetime) -> tuple[datetime, datetime]:
        """The slice of the time from the first posting to the cycle's begin."""
        whole = max(self.begun - first, timedelta())
        until = self.begun if self.number == self.of else first + whole * self.number / self.of
        return first + whole * (self.number - 1) / self.of, until


class RollingProof(Struct, frozen=True, kw_only=True):
    """The proof of one slice, and how far the cycle is with it."""

    number: int
    of: int
    begun: datetime
    """The begin of the cycle."""
    proof: RecentProof | None
    """None while nothing is old enough."""

    @property
    def holds(self) -> bool:
        """True if nothing was found."""
        return self.proof is None or self.proof.holds


def turn_at(now: datetime, cycle: float | timedelta, every: float | timedelta) -> ProofTurn:
    """The slice of a time, of those that a cycle has when one is proved in each ``every``.

    Raises ``InvalidArgument``.
    """
    long, each = checks.seconds(cycle, "cycle"), checks.seconds(every, "every")
    if not 0 < each <= long or long / each > MOST_SLICES:
        raise InvalidArgument(
            f"a cycle has 1 to {MOST_SLICES:,} slices: cycle={long:g} and every={each:g} seconds"
        )
    passed, of = checks.aware(now, "now").timestamp(), ceil(long / each)
    cycles = passed // long
    number = min(int((passed - cycles * long) // each) + 1, of)
    return ProofTurn(number=number, of=of, begun=datetime.fromtimestamp(cycles * long, UTC))


async def prove_turn(store: LedgerStore, turn: ProofTurn) -> RollingProof:
    """Prove the slice whose turn it is."""
    async with store.ledger_snapshot() as reads:
        postings = await reads.ledger_postings(after=0, limit=1)
        first = datetime.fromtimestamp(postings[0].at / 1_000, UTC) if postings else turn.begun
        since, until = turn.of_time(first)
        proof = await prove_left(reads, since, until) if since < until else None
    return RollingProof(number=turn.number, of=turn.of, begun=turn.begun, proof=proof)
