"""The live ledger beside its archives: together they have each chain from beginning to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.economy.ledger.archive import ArchiveReplay
from offpath.economy.ledger.chains import (
    MOST_BREAKS,
    PAGE,
    VANISHED,
    Break,
    ChainWalk,
    all_accounts,
)
from offpath.model.ledger.faults import Archived, LedgerError
from offpath.model.ledger.posting import PostingRecord, verified

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
    run = _Continued(archive)
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
                run.take(posting)
            after = page[-1].seq
        await run.end(reads)
    return Continuation(
        checkpoint=archive.head.sealed.id,
        sealed=sealed,
        postings=run.postings,
        breaks=tuple(run.breaks.values()),
        wrong=tuple(run.wrong),
    )


async def _has(reads: LedgerReads, archive: ArchiveReplay) -> bool:
    wanted, before = archive.head.sealed, ""
    while page := await reads.ledger_checkpoints(before=before, limit=PAGE):
        if wanted in page:
            return True
        before = page[-1].id
    return False


class _Continued:
    """The chains from the archive's end on."""

    def __init__(self, archive: ArchiveReplay) -> None:
        self.walks = {one.account: one.walk() for one in archive.standings()}
        self.breaks: dict[str, Break] = {}
        self.wrong: list[str] = []
        self.postings = 0

    def take(self, posting: PostingRecord) -> None:
        """The next posting behind the archive."""
        self.postings += 1
        try:
            verified(posting)
        except (LedgerError, ValueError) as error:
            self.wrong += [str(error)][: MOST_BREAKS - len(self.wrong)]
        for link in posting.links:
            walk = self.walks.setdefault(link.account, ChainWalk(link.account))
            self._tell(walk.step(link, posting.meta))

    async def end(self, reads: LedgerReads) -> None:
        """Compare each account's row with where its chain came to."""
        rows = set[str]()
        async for row in all_accounts(reads):
            rows.add(row.id)
            self._tell(self.walks.get(row.id, ChainWalk(row.id)).end(row))
        for name in sorted(self.walks.keys() - rows):
            self._tell(Break(account=name, reason=VANISHED))

    def _tell(self, found: Break | None) -> None:
        if found is not None and len(self.breaks) < MOST_BREAKS:
            self.breaks.setdefault(found.account, found)
