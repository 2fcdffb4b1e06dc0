"""The places where a trim has left the chains: from there on they are proved.

Of each account the last link up to the trim's boundary is kept. All of them together give the root
that the checkpoint at the boundary signed, so a chain that begins there is as good as one that
begins with its first link.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from offpath.economy.ledger.merkle import Root, Tree
from offpath.economy.ledger.signatures import NUMBERED
from offpath.model.ledger.chart import chart
from offpath.model.ledger.faults import UnknownAccount
from offpath.model.ledger.records import Leaf

if TYPE_CHECKING:
    from offpath.model.ledger.posting import LinkRecord
    from offpath.model.ledger.records import Checkpoint
    from offpath.model.ledger.trims import Trim
    from offpath.store.ledger import LedgerReads

PAGE = 1000


async def standings_of(reads: LedgerReads, names: Sequence[str]) -> dict[str, LinkRecord]:
    """The links at which the last trim has left these accounts, by account."""
    trims = await reads.ledger_trims()
    if not trims:
        return {}
    until = trims[0].posting
    found = await reads.ledger_standings(until, ids=names, limit=len(names))
    return {one.account: one for one in found}


async def all_standings(reads: LedgerReads, until: int) -> AsyncIterator[LinkRecord]:
    """The last link of each account up to a posting, by account, page by page."""
    after = ""
    while page := await reads.ledger_standings(until, after=after, limit=PAGE):
        for link in page:
            yield link
        after = page[-1].account


class Standings:
    """The places where the last trim has left the chains, asked for by account in their order."""

    def __init__(self, reads: LedgerReads) -> None:
        self._reads = reads
        self._opened = False
        self._trim: Trim | None = None
        self._links: AsyncIterator[LinkRecord] | None = None
        self._next: LinkRecord | None = None
        self._tree = Tree(NUMBERED)

    async def of(self, account: str) -> LinkRecord | None:
        """The link of an account; None: it was not there then, or nothing was ever trimmed."""
        await self._open()
        while self._next is not None and self._next.account < account:
            await self._step()
        here = self._next
        return here if here is not None and here.account == account else None

    async def unlike(self) -> Trim | None:
        """The trim, when all of them together are not what its checkpoint signed."""
        await self._open()
        while self._next is not None:
            await self._step()
        trim = self._trim
        if trim is None:
            return None
        sealed = await checkpoint_of(self._reads, trim.checkpoint)
        same = sealed is not None and self._tree.root() == Root(
            sealed.root, sealed.sum, sealed.count
        )
        return None if same else trim

    async def _open(self) -> None:
        if self._opened:
            return
        self._opened = True
        trims = await self._reads.ledger_trims()
        if trims:
            self._trim = trims[0]
            self._links = all_standings(self._reads, trims[0].posting)
            self._next = await anext(self._links, None)

    async def _step(self) -> None:
        if self._links is not None and self._next is not None:
            self._tree.add(leaf_at(self._next))
            self._next = await anext(self._links, None)


async def checkpoint_of(reads: LedgerReads, name: str) -> Checkpoint | None:
    """A checkpoint by its id."""
    before = ""
    while page := await reads.ledger_checkpoints(before=before, limit=PAGE):
        found = next((one for one in page if one.id == name), None)
        if found is not None:
            return found
        before = page[-1].id
    return None


def leaf_at(link: LinkRecord) -> Leaf:
    """The facts that a checkpoint has of an account whose last link is this."""
    try:
        total = chart(link.account).entry(link.balance)
    except UnknownAccount:
        total = 0  # no root has it, so it is found
    return Leaf(account=link.account, number=link.number, head=link.hash, sum=total)
