"""All checkpoints that there are, each compared with the links as they are now.

A checkpoint of version 4 signs the number of the last posting that it covers. So its root can be
made again from the links alone, without the leaves that the store keeps of the last one. Where
postings were trimmed, it is made from the links at the trim's boundary on: the archives have what
was before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from offpath.economy.ledger import chains
from offpath.economy.ledger.merkle import GrowingTree, Root
from offpath.economy.ledger.signatures import NUMBERED
from offpath.economy.ledger.standings import all_standings, leaf_at
from offpath.model.ledger.records import Checkpoint, Leaf

if TYPE_CHECKING:
    from offpath.model.ledger.posting import PostingRecord
    from offpath.store.ledger import LedgerReads

_LINKED = 3
"""The version from which on a checkpoint names the one before."""


async def all_checkpoints(reads: LedgerReads) -> list[Checkpoint]:
    """Every checkpoint, the first one first."""
    known: list[Checkpoint] = []
    before = ""
    while page := await reads.ledger_checkpoints(before=before, limit=chains.PAGE):
        known += page
        before = page[-1].id
    return known[::-1]


async def walked(reads: LedgerReads, ours: Callable[[Checkpoint], bool]) -> AsyncIterator[str]:
    """The faults of checkpoints, as ``ID: what``, the first ones first."""
    known = await all_checkpoints(reads)
    before: Checkpoint | None = None
    for one in known:
        if not ours(one):
            yield f"{one.id}: signature"
        if one.v >= _LINKED and one.prev != (None if before is None else before.id):
            yield f"{one.id}: order"
        before = one
    signed = [one for one in known if one.v >= NUMBERED and ours(one)]
    async for one in rewritten(reads, signed):
        yield f"{one.id}: history"


async def rewritten(reads: LedgerReads, signed: Sequence[Checkpoint]) -> AsyncIterator[Checkpoint]:
    """Checkpoints whose root the links do not give. It takes memory for a head of each account."""
    trims = await reads.ledger_trims()
    begin = trims[0].posting if trims else 0
    waiting = sorted((one for one in signed if _posting(one) >= begin), key=_posting)
    tree, heads, fresh = GrowingTree(), dict[str, Leaf](), set[str]()
    if waiting and begin:
        heads = {one.account: leaf_at(one) async for one in all_standings(reads, begin)}
        fresh = set(heads)
    postings = _all_postings(reads, begin) if waiting else None
    pending = None if postings is None else await anext(postings, None)
    for one in waiting:
        while postings is not None and pending is not None and pending.seq <= _posting(one):
            fresh |= _follow(heads, pending)
            pending = await anext(postings, None)
        tree.put([heads[name] for name in fresh])
        fresh.clear()
        if tree.root() != Root(one.root, one.sum, one.count):
            yield one


def _follow(heads: dict[str, Leaf], posting: PostingRecord) -> set[str]:
    """The accounts of a posting move on; which they are."""
    for link in posting.links:
        before = heads.get(link.account)
        total = (0 if before is None else before.sum) + link.amount
        heads[link.account] = Leaf(
            account=link.account, number=link.number, head=link.hash, sum=total
        )
    return {link.account for link in posting.links}


async def _all_postings(reads: LedgerReads, after: int) -> AsyncIterator[PostingRecord]:
    while page := await reads.ledger_postings(after=after, limit=chains.PAGE):
        for posting in page:
            yield posting
        after = page[-1].seq


def _posting(checkpoint: Checkpoint) -> int:
    return checkpoint.posting or 0
