"""A survey of all accounts: their sums, as they are and as they were sealed, and which moved."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from offpath.economy.ledger.chains import Side, all_sides, leaf_of
from offpath.economy.ledger.merkle import Root, Tree
from offpath.economy.ledger.signatures import VERSION, SealVerifier, is_ours
from offpath.model.ledger.chart import chart
from offpath.model.ledger.faults import ChainBroken, UnknownAccount
from offpath.model.ledger.records import AccountRecord, Checkpoint

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads

SUMMED: Final = 2
"""The version from which on a root covers sums."""
_LINKED: Final = 3
"""The version from which on a checkpoint names the one before."""


class LedgerSurvey:
    """The sums of all accounts, as they are and as they were sealed."""

    def __init__(self, version: int, chance: Callable[[], float] = random.random) -> None:
        self._sealed = Tree(version)
        self._live = Tree(VERSION)
        self._sums: dict[str, int] = {}
        self._chance = chance
        self.links = 0
        self.drawn = ("", 0)
        """A place in the chains, each link as likely as any other."""

    def take(self, side: Side) -> None:
        """Count an account in, on both sides."""
        if side.leaf is not None:
            self._sealed.add(side.leaf)
        if side.account is not None:
            self._balance(side.account)

    def _balance(self, account: AccountRecord) -> None:
        try:
            currency = chart(account.id).currency
        except UnknownAccount:
            return  # a break by itself
        self._live.add(leaf_of(account))
        self._sums[currency] = self._sums.get(currency, 0) + account.sum
        number = max(account.number, 0)
        self.links += number
        if self._chance() * self.links < number:
            self.drawn = (account.id, int(self._chance() * number))

    def sealed(self) -> Root | None:
        """The root of the stored leaves; None: they are none."""
        return self._sealed.root()

    def live(self) -> Root:
        """The root of all accounts, when each was proved. Raises ``ChainBroken``."""
        root = self._live.root()
        if root is None:
            raise ChainBroken("the accounts have no root: their sums do not fit 64 bits")
        return root

    def unbalanced(self) -> dict[str, int]:
        """The currencies that do not sum to zero."""
        return {currency: total for currency, total in self._sums.items() if total}


async def moved_sides(reads: LedgerReads, survey: LedgerSurvey) -> AsyncIterator[Side]:
    """Accounts that are not as they were sealed; the survey takes all.

    Rows are compared here, for what a database computes in its statements may be tampered with as
    well; it only tells whose sealed link is not there.
    """
    listed = _listed(reads)
    name = await anext(listed, None)
    async for side in all_sides(reads):
        survey.take(side)
        while name is not None and name < side.name:
            name = await anext(listed, None)
        if side.moved or name == side.name:
            yield side


async def _listed(reads: LedgerReads) -> AsyncIterator[str]:
    after = ""
    while names := await reads.ledger_moved(after=after):
        for name in names:
            yield name
        after = names[-1]


async def last_checkpoint(reads: LedgerReads) -> Checkpoint | None:
    """The checkpoint that was made last."""
    page = await reads.ledger_checkpoints(limit=1)
    return page[0] if page else None


def root_in(checkpoint: Checkpoint) -> Root:
    """The root that a checkpoint signed."""
    return Root(checkpoint.root, checkpoint.sum, checkpoint.count)


async def follows(reads: LedgerReads, anchored: Checkpoint, keys: SealVerifier) -> bool:
    """True if the anchored checkpoint is there as it was published, and the last one goes back to
    it: each since names the one before, and we signed that.
    """
    before, wanted = "", None
    while page := await reads.ledger_checkpoints(before=before, limit=100):
        for known in page:
            if wanted not in (None, known.id):
                return False
            if known.id == anchored.id:
                return known == anchored
            if known.v < _LINKED or known.prev is None or not is_ours(known, keys):
                return False
            wanted = known.prev
        before = page[-1].id
    return False
