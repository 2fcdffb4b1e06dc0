"""Walking a chain: each link must follow the one before it and hash to what it says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.model.ledger.chart import chart
from offpath.model.ledger.posting import GENESIS, LinkRecord, hash_of
from offpath.model.ledger.records import AccountRecord, Leaf

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads

PAGE = 1000
MOST_BREAKS = 100
"""Breaks that one report names."""

BROKEN_LINK = "broken-link"
"""A link does not follow the one before it."""
TAMPERED_HASH = "tampered-hash"
"""A link's content does not hash to what is stored."""
WRONG_BALANCE = "wrong-balance"
"""A link or the account says another balance than its entries give."""
TRUNCATED = "truncated"
"""Links that were sealed, or that the account counts, are not there."""
VANISHED = "vanished"
"""An account that was sealed is not there."""
REPLACED = "replaced"
"""The chain goes another way than the one that was sealed."""


class Break(Struct, frozen=True, kw_only=True):
    """Where a chain does not hold, and how."""

    account: str
    reason: str
    posting: str | None = None

    def __str__(self) -> str:
        """Write it for people."""
        where = "" if self.posting is None else f" at posting {self.posting}"
        return f"{self.account}: {self.reason}{where}"


class ChainWalk:
    """One account's chain, from a proved place on."""

    def __init__(self, account: str, *, leaf: Leaf | None = None) -> None:
        self.account = account
        self.number = 0 if leaf is None else leaf.number
        self.head = GENESIS if leaf is None else leaf.head
        self.sum = 0 if leaf is None else leaf.sum
        self._chart = chart(account)

    def step(self, link: LinkRecord, meta: str) -> Break | None:
        """Take the next link; what is wrong with it, if anything."""
        if link.number != self.number + 1 or link.prev != self.head:
            return self._break(BROKEN_LINK, link)
        if sum(link.entries) != link.amount or hash_of(link, meta) != link.hash:
            return self._break(TAMPERED_HASH, link)
        self.number, self.head, self.sum = link.number, link.hash, self.sum + link.amount
        if link.balance != self._chart.change(self.sum):
            return self._break(WRONG_BALANCE, link)
        return None

    def end(self, live: AccountRecord | None) -> Break | None:
        """Compare what was walked with what the account says of itself."""
        if live is None:
            return Break(account=self.account, reason=VANISHED)
        if live.number > self.number:
            return Break(account=self.account, reason=TRUNCATED)
        if (live.number, live.head) != (self.number, self.head):
            return Break(account=self.account, reason=BROKEN_LINK)
        if live.sum != self.sum:
            return Break(account=self.account, reason=WRONG_BALANCE)
        return None

    def _break(self, reason: str, link: LinkRecord) -> Break:
        return Break(account=self.account, reason=reason, posting=link.posting)


async def prove_account(
    reads: LedgerReads, account: str, live: AccountRecord | None, leaf: Leaf | None
) -> Break | None:
    """Prove one account from what was sealed (None: from its genesis) to what it is now."""
    if live is None:
        return Break(account=account, reason=VANISHED)
    if leaf is not None and (found := await _ancestor(reads, leaf)) is not None:
        return found
    walk = ChainWalk(account, leaf=leaf)
    while page := await reads.ledger_since(account, walk.number, limit=PAGE):
        for link, meta in page:
            if (found := walk.step(link, meta)) is not None:
                return found
        if len(page) < PAGE:
            break
    return walk.end(live)


async def _ancestor(reads: LedgerReads, leaf: Leaf) -> Break | None:
    """Whether the sealed head is still on the account's chain, at its place."""
    links = await reads.ledger_links(leaf.account, after=leaf.number - 1, limit=1)
    if not links or links[0].number != leaf.number:
        return Break(account=leaf.account, reason=TRUNCATED)
    if links[0].hash != leaf.head:
        return Break(account=leaf.account, reason=REPLACED, posting=links[0].posting)
    return None


async def all_accounts(reads: LedgerReads) -> AsyncIterator[AccountRecord]:
    """Every account, by id, page by page."""
    after = ""
    while page := await reads.ledger_accounts(after=after, limit=PAGE):
        for account in page:
            yield account
        after = page[-1].id


async def all_leaves(reads: LedgerReads) -> AsyncIterator[Leaf]:
    """Every leaf of the last checkpoint, by account, page by page."""
    after = ""
    while page := await reads.ledger_leaves(after=after, limit=PAGE):
        for leaf in page:
            yield leaf
        after = page[-1].account


async def all_links(reads: LedgerReads) -> AsyncIterator[tuple[LinkRecord, str]]:
    """Every link with its posting's metadata, by account and number, page by page."""
    after = ("", 0)
    while page := await reads.ledger_walk(after=after, limit=PAGE):
        for item in page:
            yield item
        after = (page[-1][0].account, page[-1][0].number)


def leaf_of(account: AccountRecord) -> Leaf:
    """What a checkpoint keeps of an account."""
    return Leaf(account=account.id, number=account.number, head=account.head, sum=account.sum)
