"""The live ledger beside its archives: together they have each chain from beginning to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.economy.ledger.archive import ArchiveReplay
from offpath.economy.ledger.chains import (
    PAGE,
    VANISHED,
    Break,
    ChainWalk,
    all_accounts,
)
from offpath.economy.ledger.posting_walks import PostingWalks
from offpath.model.ledger.faults import Archived

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads, LedgerStore


class Continuation(Struct, frozen=True, kw_only=True):
    """The proof that a ledger goes on from its last archive."""

    checkpoint: str
    """The id of the one that the archive ends with."""
    sealed: bool
    """True if the ledger has that checkpoint, as the archive has it."""
    postings: int
    """The number that came behind the archive."""
    breaks: tuple[Break, ...] = ()
    """Accounts that do not go on from where the archive ends; at most 100."""
    wrong: tuple[str, ...] = ()
    """Postings that do not balance, or do not hash to their links; at most 100."""

    @property
    def holds(self) -> bool:
        """True if nothing was found."""
        return self.sealed and not (self.breaks or self.wrong)


async def continued(store: LedgerStore, archive: ArchiveReplay) -> Continuation:
    """Prove that each chain goes on from where an archive ends, up to its account's row.

    Reads only, of one moment. It takes memory for each account. Raises ``Archived`` for an archive
    of which postings behind it were removed: a later one has them.
    """
    walks = PostingWalks((one.walk() for one in archive.standings()), believed=False)
    async with store.ledger_snapshot() as reads:
        trims = await reads.ledger_trims()
        if trims and archive.head.span[1] < trims[0].posting:
            raise Archived(
                f"the ledger goes on from {trims[0].file}, and no more from an archive before it: "
                "prove all of them up to that one"
            )
        sealed = await _has(reads, archive)
        after = archive.head.span[1]
        while page := await reads.ledger_postings(after=after, limit=PAGE):
            for posting in page:
                walks.take(posting)
            after = page[-1].seq
        await _compare(walks, reads)
    return Continuation(
        checkpoint=archive.head.sealed.id,
        sealed=sealed,
        postings=walks.postings,
        breaks=walks.breaks,
        wrong=walks.wrong,
    )


async def _has(reads: LedgerReads, archive: ArchiveReplay) -> bool:
    wanted, before = archive.head.sealed, ""
    while page := await reads.ledger_checkpoints(before=before, limit=PAGE):
        if wanted in page:
            return True
        before = page[-1].id
    return False


async def _compare(walks: PostingWalks, reads: LedgerReads) -> None:
    """Compare each account's row with where its chain came to."""
    rows = set[str]()
    async for row in all_accounts(reads):
        rows.add(row.id)
        walks.tell(walks.walks.get(row.id, ChainWalk(row.id)).end(row))
    for name in sorted(walks.walks.keys() - rows):
        walks.tell(Break(account=name, reason=VANISHED))
