"""Walking a chain: each link must follow the one before it and hash to what it says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from offpath.economy.ledger.standings import Standings, standings_of
from offpath.model.ledger.chart import Chart, chart
from offpath.model.ledger.faults import UnknownAccount
from offpath.model.ledger.posting import GENESIS, LinkRecord, hash_of
from offpath.model.ledger.records import AccountRecord, Leaf

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads

PAGE = 1000
_FAR = 1 << 62
"""More links than any account has."""
MOST_BREAKS = 100
"""Breaks that one report names."""

BROKEN_LINK = "broken-link"
"""A link does not follow the one before it, or the account is not at its last one."""
TAMPERED_HASH = "tampered-hash"
"""A link's content does not hash to what is stored."""
WRONG_BALANCE = "wrong-balance"
"""A link or the account says another balance than its entries give."""
WRONG_RAISED = "wrong-raised"
"""A link or the account says another sum of what raised it than its entries give."""
WRONG_SOURCE = "wrong-source"
"""A link says another source of its money than its posting's metadata."""
TRUNCATED = "truncated"
"""Links that were sealed, or that the account counts, are not there."""
VANISHED = "vanished"
"""An account that was sealed, or that has links, is not there."""
REPLACED = "replaced"
"""The chain goes another way than the one that was sealed."""
UNKNOWN = "unknown-account"
"""The chart of accounts knows no such account."""
STANDINGS = "standings"
"""The links from which trimmed chains go on are not those of the checkpoint that the trim ended
with."""
WRONG_CHART = "wrong-chart"
"""The account's row says another kind, currency or side of it than the chart of accounts."""


class Break(Struct, frozen=True, kw_only=True):
    """The place where a chain does not hold, and the reason."""

    account: str
    reason: str
    posting: str | None = None

    def __str__(self) -> str:
        """Write it for people."""
        where = "" if self.posting is None else f" at posting {self.posting}"
        return f"{self.account}: {self.reason}{where}"


class Side(NamedTuple):
    """An account as it is (None: it is not there), and as it was sealed (None: it was not)."""

    account: AccountRecord | None
    leaf: Leaf | None

    @property
    def name(self) -> str:
        """The account's id."""
        if self.account is not None:
            return self.account.id
        return "" if self.leaf is None else self.leaf.account

    @property
    def moved(self) -> bool:
        """True if it is not as it was sealed."""
        one, leaf = self.account, self.leaf
        if one is None or leaf is None or (one.number, one.head) != (leaf.number, leaf.head):
            return True
        if not one.charted:
            return True
        known = _known(one.id)
        return known is None or known.entry(one.balance) != leaf.sum


class ChainWalk:
    """One account's chain, link after link from its beginning.

    With a leaf, its link must be on the way. With ``trusted``, the leaf's sum is believed and the
    walk begins with that link: what is before it was proved when it was sealed.
    """

    def __init__(self, account: str, *, leaf: Leaf | None = None, trusted: bool = False) -> None:
        self.account = account
        self.number, self.head, self.sum, self.raised = 0, GENESIS, 0, 0
        self._leaf = leaf
        self._begins = trusted and leaf is not None
        self._chart = _known(account)

    def resume(self, link: LinkRecord) -> None:
        """Believe what is before a link."""
        if self._chart is not None:
            change = self._chart.change(link.amount)
            self.number, self.head = link.number - 1, link.prev
            self.sum = self._chart.entry(link.balance - change)
            self.raised = link.raised - max(change, 0)

    def begin(self, link: LinkRecord, standing: LinkRecord | None) -> None:
        """Begin with a chain's first link. Where it was trimmed, what is before it is believed: it
        leads to the link that the checkpoint at the boundary signed.
        """
        if standing is not None and self.number + 1 < link.number <= standing.number:
            self.resume(link)

    def step(self, link: LinkRecord, meta: str) -> Break | None:
        """Take the next link; what is wrong with it, if anything."""
        if self._chart is None:
            return self._break(UNKNOWN, link)
        if self._begins and (found := self._begin(link)) is not None:
            return found
        if (link.account, link.number, link.prev) != (self.account, self.number + 1, self.head):
            return self._break(BROKEN_LINK, link)
        if sum(link.entries) != link.amount or hash_of(link, meta) != link.hash:
            return self._break(TAMPERED_HASH, link)
        self.number, self.head, self.sum = link.number, link.hash, self.sum + link.amount
        self.raised += max(self._chart.change(link.amount), 0)
        if (leaf := self._leaf) is not None and leaf.number == link.number:
            if leaf.head != link.hash:
                return self._break(REPLACED, link)
            self._leaf = None
        return self._unsealed(link, meta, self._chart)

    def end(self, live: AccountRecord | None) -> Break | None:
        """Compare what was walked with what the account says of itself."""
        if live is None:
            return self._break(VANISHED)
        if self._chart is None:
            return self._break(UNKNOWN)
        if not live.charted:
            return self._break(WRONG_CHART)
        if self._leaf is not None or live.number > self.number:
            return self._break(TRUNCATED)
        if (live.number, live.head) != (self.number, self.head):
            return self._break(BROKEN_LINK)
        if live.raised != self.raised:
            return self._break(WRONG_RAISED)
        if live.sum != self.sum:
            return self._break(WRONG_BALANCE)
        return None

    def _begin(self, link: LinkRecord) -> Break | None:
        """The sealed link must be at its place; from before it only the sum is known."""
        leaf = self._leaf
        self._begins = False
        if leaf is None or link.number != leaf.number:
            return self._break(TRUNCATED)
        if link.hash != leaf.head:
            return self._break(REPLACED, link)
        self.resume(link)
        self.sum = leaf.sum - link.amount
        return None

    def _unsealed(self, link: LinkRecord, meta: str, known: Chart) -> Break | None:
        """The facts of a link besides those that its hash is over."""
        if link.balance != known.change(self.sum):
            return self._break(WRONG_BALANCE, link)
        if link.raised != self.raised:
            return self._break(WRONG_RAISED, link)
        if link.source is None and '"source"' not in meta:
            return None
        return None if _says(meta, link.source) else self._break(WRONG_SOURCE, link)

    def _break(self, reason: str, link: LinkRecord | None = None) -> Break:
        posting = None if link is None else link.posting
        return Break(account=self.account, reason=reason, posting=posting)


async def prove_account(
    reads: LedgerReads, account: str, live: AccountRecord | None, leaf: Leaf | None
) -> Break | None:
    """Prove one account from what was sealed (None: from its genesis) to what it is now."""
    walk = ChainWalk(account, leaf=leaf, trusted=True)
    after = 0 if leaf is None else leaf.number - 1
    while live is not None and (page := await reads.ledger_since(account, after, limit=PAGE)):
        for link, meta in page:
            if (found := walk.step(link, meta)) is not None:
                return found
        if len(page) < PAGE:
            break
        after = page[-1][0].number
    return walk.end(live)


async def prove_sides(
    reads: LedgerReads, sides: AsyncIterator[Side]
) -> AsyncIterator[tuple[Side, Break | None]]:
    """Prove accounts as :func:`prove_account` does, in their order, as many in one read as have a
    page of links together.
    """
    bundle: list[Side] = []
    count = 0
    async for side in sides:
        tail = _tail(side)
        count += 0 if tail is None else tail[2] - tail[1]
        if count > PAGE or len(bundle) >= PAGE:
            async for proved in _bundle(reads, bundle):
                yield proved
            bundle, count = [], 0 if tail is None else tail[2] - tail[1]
        bundle.append(side)
    async for proved in _bundle(reads, bundle):
        yield proved


async def _bundle(
    reads: LedgerReads, bundle: Sequence[Side]
) -> AsyncIterator[tuple[Side, Break | None]]:
    """The breaks of a bundle. A chain that does not hold, or is long, is read on its own: only so
    its fault is known.
    """
    tails = [tail for side in bundle if (tail := _tail(side)) is not None]
    links: dict[str, list[tuple[LinkRecord, str]]] = {}
    for pair in await reads.ledger_tails(tails) if tails else ():
        links.setdefault(pair[0].account, []).append(pair)
    for side in bundle:
        if _holds(side, links.get(side.name, ())):
            yield side, None
        else:
            yield side, await prove_account(reads, side.name, side.account, side.leaf)


def _tail(side: Side) -> tuple[str, int, int] | None:
    """The links to be read of an account, one more than it says it has; None: not in a bundle,
    since it is more than a page, or what its row or its leaf says cannot be.
    """
    live, after = side.account, 0 if side.leaf is None else side.leaf.number - 1
    if live is None or not 0 <= after < live.number < min(after + PAGE, _FAR):
        return None
    return live.id, after, live.number + 1


def _holds(side: Side, links: Sequence[tuple[LinkRecord, str]]) -> bool:
    walk = ChainWalk(side.name, leaf=side.leaf, trusted=True)
    return all(walk.step(*pair) is None for pair in links) and walk.end(side.account) is None


class Replayed(NamedTuple):
    """An account whose chain was walked from its genesis."""

    side: Side
    name: str
    links: int
    sum: int
    """Of all entries of its links."""
    found: Break | None


async def replay(
    reads: LedgerReads, *, sealed: bool, heed: Callable[[LinkRecord, str], None] | None = None
) -> AsyncIterator[Replayed]:
    """Every account, its chain walked from its genesis, and links that have no account.

    ``sealed``: what was sealed must be on the way. ``heed`` is told about each link with its
    posting's metadata. It takes memory for a page, whatever there is. A chain that was trimmed is
    walked from the first link that is left; at the end, the links where the trim ended must be
    those that its checkpoint signed.
    """
    links, begun = _heeded(all_links(reads), heed), Standings(reads)
    pending = await anext(links, None)
    async for side in all_sides(reads) if sealed else _accounts_only(reads):
        while pending is not None and pending[0].account < side.name:
            orphans, pending = await _walked(links, pending, Side(None, None), begun)
            yield orphans
        done, pending = await _walked(links, pending, side, begun)
        yield done
    while pending is not None:
        orphans, pending = await _walked(links, pending, Side(None, None), begun)
        yield orphans
    if (trim := await begun.unlike()) is not None:
        wrong = Break(account=f"trim {trim.number}", reason=STANDINGS)
        yield Replayed(Side(None, None), wrong.account, 0, 0, wrong)


async def _heeded(
    links: AsyncIterator[tuple[LinkRecord, str]], heed: Callable[[LinkRecord, str], None] | None
) -> AsyncIterator[tuple[LinkRecord, str]]:
    async for link, meta in links:
        if heed is not None:
            heed(link, meta)
        yield link, meta


async def _walked(
    links: AsyncIterator[tuple[LinkRecord, str]],
    pending: tuple[LinkRecord, str] | None,
    side: Side,
    begun: Standings,
) -> tuple[Replayed, tuple[LinkRecord, str] | None]:
    """The chain of the account that comes next, and the first link behind it."""
    name = side.name or (pending[0].account if pending is not None else "")
    walk, count = ChainWalk(name, leaf=side.leaf), 0
    found = None if side.account is not None else walk.end(None)
    if pending is not None and pending[0].account == name:
        walk.begin(pending[0], await begun.of(name))
    summed = walk.sum
    while pending is not None and pending[0].account == name:
        count += 1
        summed += sum(pending[0].entries)
        found = walk.step(*pending) if found is None else found
        pending = await anext(links, None)
    found = walk.end(side.account) if found is None else found
    return Replayed(side, name, count, summed, found), pending


async def recheck(reads: LedgerReads, after: tuple[str, int], limit: int) -> AsyncIterator[Break]:
    """The breaks in so many links from a place on, and from the first one when the last was
    reached.
    """
    page = await reads.ledger_walk(after=after, limit=limit)
    async for found in _rechecked(reads, page, after, ended=len(page) < limit):
        yield found
    if len(page) < limit and after > ("", 0):
        first = await reads.ledger_walk(limit=limit - len(page))
        async for found in _rechecked(reads, first, ("", 0), ended=False):
            yield found


async def _rechecked(
    reads: LedgerReads,
    page: Sequence[tuple[LinkRecord, str]],
    after: tuple[str, int],
    *,
    ended: bool,
) -> AsyncIterator[Break]:
    if not page:
        return
    names = sorted({link.account for link, _ in page})
    live = {one.id: one for one in await reads.ledger_accounts(ids=names, limit=len(names))}
    begun = await standings_of(reads, names)
    for name in names:
        own = [(link, meta) for link, meta in page if link.account == name]
        walk, before = ChainWalk(name), after[1] if name == after[0] else 0
        if own[0][0].number == before + 1 > 1:  # else a link in front of it is not there
            walk.resume(own[0][0])
        else:
            walk.begin(own[0][0], begun.get(name))
        found = next((one for each in own if (one := walk.step(*each)) is not None), None)
        if found is None and (ended or name != names[-1]):
            found = walk.end(live.get(name))
        if found is not None:
            yield found


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


async def all_sides(reads: LedgerReads) -> AsyncIterator[Side]:
    """Accounts beside their leaves, each account once; both come sorted."""
    accounts, leaves = all_accounts(reads), all_leaves(reads)
    account, leaf = await anext(accounts, None), await anext(leaves, None)
    while account is not None or leaf is not None:
        if leaf is None or (account is not None and account.id < leaf.account):
            yield Side(account, None)
            account = await anext(accounts, None)
        elif account is None or leaf.account < account.id:
            yield Side(None, leaf)
            leaf = await anext(leaves, None)
        else:
            yield Side(account, leaf)
            account, leaf = await anext(accounts, None), await anext(leaves, None)


async def _accounts_only(reads: LedgerReads) -> AsyncIterator[Side]:
    async for account in all_accounts(reads):
        yield Side(account, None)


def leaf_of(account: AccountRecord) -> Leaf:
    """The facts that a checkpoint keeps of an account."""
    return Leaf(account=account.id, number=account.number, head=account.head, sum=account.sum)


def _known(account: str) -> Chart | None:
    try:
        return chart(account)
    except UnknownAccount:
        return None


def _says(meta: str, source: str | None) -> bool:
    """True if metadata names this source; what hashes and is not JSON all the same says nothing."""
    try:
        found = msgspec.json.decode(meta)
    except (ValueError, RecursionError):
        return False
    named = found.get("source") if isinstance(found, dict) else None
    return (named if isinstance(named, str) else None) == source
