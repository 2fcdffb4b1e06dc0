"""The proof of what was posted in a time: it costs that much, however long the ledger is."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.economy.ledger.chains import PAGE, TRUNCATED, Break, ChainWalk
from offpath.economy.ledger.posting_walks import PostingWalks
from offpath.economy.ledger.trim_proof import whole_since
from offpath.model import checks

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads, LedgerStore


class RecentProof(Struct, frozen=True, kw_only=True):
    """The proof of the postings since a time. What was before is believed."""

    since: datetime
    until: datetime | None = None
    """The end of what was proved, which is not included; None: all that there is."""
    postings: int
    accounts: int
    """The accounts that moved since."""
    breaks: tuple[Break, ...] = ()
    """Accounts whose chain does not hold since then; at most 100."""
    wrong: tuple[str, ...] = ()
    """Postings that do not balance, or do not hash to their links; at most 100."""

    @property
    def holds(self) -> bool:
        """True if nothing was found."""
        return not (self.breaks or self.wrong)


async def prove_since(
    store: LedgerStore, since: datetime, until: datetime | None = None
) -> RecentProof:
    """Prove that each posting since a time balances and hashes, that each account's links follow
    one another from there, and that its row is where they end. Reads only, of one moment.

    With ``until`` only what was posted before that: an account's last link there must then lead to
    its next one. It keeps some of each account that moved in memory. Raises ``InvalidArgument``
    for a time without a zone, and ``Archived`` for a time from which postings were removed.
    """
    async with store.ledger_snapshot() as reads:
        at = _millis(since, "since")
        await whole_since(reads, at, f"nothing is proved since {since.isoformat()}")
        return await prove_left(reads, since, until)


async def prove_left(
    reads: LedgerReads, since: datetime, until: datetime | None = None
) -> RecentProof:
    """The same of what is left, where postings of that time were archived and removed."""
    at = _millis(since, "since")
    last = None if until is None else _millis(until, "until")
    walks = PostingWalks(believed=True)
    after = await _before(reads, at)
    end = await reads.ledger_last() if last is None else await _before(reads, last)
    while after < end and (page := await reads.ledger_postings(after=after, limit=PAGE)):
        for posting in page:
            if posting.seq <= end:
                walks.take(posting)
        after = page[-1].seq
    await _compare(walks, reads)
    return RecentProof(
        since=since,
        until=until,
        postings=walks.postings,
        accounts=len(walks.walks),
        breaks=walks.breaks,
        wrong=walks.wrong,
    )


def _millis(moment: datetime, name: str) -> int:
    return round(checks.aware(moment, name).timestamp() * 1_000)


async def _before(reads: LedgerReads, at: int) -> int:
    """The number before the first posting of that time or later, found by halves."""
    low, high = 0, await reads.ledger_last()
    while low < high:
        middle = (low + high) // 2
        found = await reads.ledger_postings(after=middle, limit=1)
        if found and found[0].at < at:
            low = found[0].seq
        else:
            high = middle
    return low


async def _compare(walks: PostingWalks, reads: LedgerReads) -> None:
    """Compare where each walk came to with the account's next link, or with its row."""
    names = sorted(walks.walks.keys() - walks.broken.keys())
    for begin in range(0, len(names), PAGE):
        page = names[begin : begin + PAGE]
        rows = {one.id: one for one in await reads.ledger_accounts(ids=page, limit=PAGE)}
        for name in page:
            walk, row = walks.walks[name], rows.get(name)
            later = row is not None and row.number > walk.number
            walks.tell(await _next_step(reads, walk) if later else walk.end(row))


async def _next_step(reads: LedgerReads, walk: ChainWalk) -> Break | None:
    """The fault of the link behind those that were walked, if any."""
    links = await reads.ledger_links(walk.account, after=walk.number, limit=1)
    known = await reads.ledger_postings(ids=[one.posting for one in links], limit=1)
    if not (links and known):
        return Break(account=walk.account, reason=TRUNCATED)
    return walk.step(links[0], known[0].meta)
