"""Removing from the ledger what a signed archive has: proved first, then step by step.

A trim is written before anything is removed: which archive has the postings, up to which
checkpoint, and what is kept of them all the same; and it is signed. From then on each step removes
some of the oldest postings in a transaction of its own, so whoever was killed goes on where the
last step ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from offpath.economy.ledger.agreement import NEEDED
from offpath.economy.ledger.archive_files import archived_in
from offpath.economy.ledger.archive_live import continued
from offpath.economy.ledger.merkle import Root, Tree
from offpath.economy.ledger.mismatches import ProvedStore, unhindered
from offpath.economy.ledger.signatures import NUMBERED, Signer, signature_of
from offpath.economy.ledger.standings import PAGE, all_standings, leaf_at
from offpath.economy.ledger.trim_proof import kept_hash, signed
from offpath.errors import InvalidArgument, StoreBusy
from offpath.model.ledger import money
from offpath.model.ledger.faults import Archived, ChainBroken
from offpath.model.ledger.records import OPEN_PAYOUTS
from offpath.model.ledger.trims import Trim, manifest
from offpath.runtime.threads import in_own_thread

if TYPE_CHECKING:
    from offpath.economy.ledger.archive import ArchiveReplay
    from offpath.model.ledger.records import SideRow
    from offpath.store.ledger import LedgerReads

STEP: Final = 500
"""Postings that one transaction looks at: who posts meanwhile waits for no longer one."""


async def trim(
    store: ProvedStore,
    path: Path,
    signer: Signer,
    *,
    now: Callable[[], int],
    keep: int,
    lost: bool = False,
) -> Trim:
    """Remove the postings that an archive has, if it was sealed longer ago than ``keep`` (ms).

    A trim of this archive that was begun is finished. Raises ``InvalidArgument`` for an archive
    that does not hold, is too young, or does not go on from the last one that was trimmed by, while
    a payout is open that was asked for before its end, and while a trim of another archive is under
    way; ``Archived`` when all of it was removed before; ``ChainBroken`` while a mismatch stands,
    and when the ledger does not go on from the archive. Then nothing was removed.

    ``lost``: the archive is no more, and a trim that has removed some of it is to be finished: all
    was proved as it was begun, and its signed row says up to where. Raises ``InvalidArgument``
    where there is no such trim of a file of this name, where the file is there, and where nothing
    was removed: then the archive can be written anew.
    """
    await unhindered(store)
    last = next(iter(await store.ledger_trims()), None)
    if lost:
        _may_end(last, path, signer)
        return await _stepped(store)
    archive = await in_own_thread(partial(archived_in, path, signer))
    if last is None or last.finished:
        _follows(path, archive, last)
        _old_enough(path, archive, now() - keep)
        last = await _begun(store, path, archive, signer, now())
    else:
        _the_same(last, archive, signer)
    return await _stepped(store)


async def _stepped(store: ProvedStore) -> Trim:
    while await store.trim_postings(limit=STEP):
        pass
    return (await store.ledger_trims())[0]


def _may_end(last: Trim | None, path: Path, signer: Signer) -> None:
    """Raise unless a trim of a file of this name, which is no more, has removed a part."""
    if last is None or last.finished or last.file != path.name:
        raise InvalidArgument(f"no trim of {path.name} is under way")
    _ours(last, signer)
    if path.exists():
        raise InvalidArgument(f"{path} is there: the trim goes on by it")
    if last.untouched:
        raise InvalidArgument(
            f"the trim of {last.file} has removed nothing yet: write the archive anew "
            "(offpath ledger archive), and trim by that"
        )


def _ours(last: Trim, signer: Signer) -> None:
    if not signed(last, signer):
        raise ChainBroken(
            f"none of our keys signed the trim of {last.file} that is under way: nothing more is "
            "removed by it"
        )


def _the_same(last: Trim, archive: ArchiveReplay, signer: Signer) -> None:
    """Raise unless a trim that was begun is ours, and of the very lines of this archive.

    Another one that ends with the same checkpoint may begin later, and lack what is removed.
    """
    _ours(last, signer)
    if last.archive != archive.sha256:
        raise InvalidArgument(
            f"a trim of {last.file} is under way: finish that one first (its lines hash to "
            f"{last.archive})"
        )


def _follows(path: Path, archive: ArchiveReplay, last: Trim | None) -> None:
    """Raise unless the archive goes on from the last one that was trimmed by."""
    if last is not None and archive.head.span[1] <= last.posting:
        raise Archived(f"what {path.name} has was removed before, by {last.file}")
    before = None if archive.head.after is None else archive.head.after.id
    if before != (None if last is None else last.checkpoint):
        where = "the first posting" if last is None else last.file
        raise InvalidArgument(f"{path} does not go on from {where}: postings between would be lost")


def _old_enough(path: Path, archive: ArchiveReplay, latest: int) -> None:
    if archive.head.sealed.at > latest:
        raise InvalidArgument(
            f"{path} ends with {archive.head.sealed.id}, which is not old enough: its postings are "
            "kept in the ledger for longer"
        )


async def _begun(
    store: ProvedStore, path: Path, archive: ArchiveReplay, signer: Signer, at: int
) -> Trim:
    """Prove all that the removal relies on, keep what is needed, and write the signed trim."""
    if not (await continued(store, archive)).holds:
        raise ChainBroken(f"the ledger does not go on from {path}: nothing is removed")
    async with store.ledger_snapshot() as reads:
        await _standing_as_sealed(reads, archive)
        await _no_open_payout(reads, archive)
        await _owed_alike(reads)
        number = 1 + max([one.number for one in await reads.ledger_trims()], default=0)
        needed = [page async for page in _needed(reads, archive.head.span[1])]
        until = await _until(reads, archive)
    for page in needed:
        await store.keep_postings(number, page)
    kept = await kept_hash(store, number)
    unsigned = Trim(
        number=number,
        checkpoint=archive.head.sealed.id,
        posting=archive.head.span[1],
        until=until,
        at=at,
        file=path.name,
        archive=archive.sha256,
        kept=kept.hash,
        kid=signer.kid,
        signature="",
    )
    made = replace(unsigned, signature=await signature_of(signer, manifest(unsigned)))
    # Somebody else may have kept more since: that would never be what was signed.
    if not await store.begin_trim(made, keeps=kept.number):
        raise StoreBusy("somebody else has begun a trim meanwhile: do it again")
    return made


async def _standing_as_sealed(reads: LedgerReads, archive: ArchiveReplay) -> None:
    """Raise ``ChainBroken`` unless the links that stay are those that the checkpoint signed."""
    sealed, tree = archive.head.sealed, Tree(NUMBERED)
    async for link in all_standings(reads, archive.head.span[1]):
        tree.add(leaf_at(link))
    if tree.root() != Root(sealed.root, sealed.sum, sealed.count):
        raise ChainBroken(f"the links do not give what {sealed.id} signed: nothing is removed")


async def _no_open_payout(reads: LedgerReads, archive: ArchiveReplay) -> None:
    """Raise ``InvalidArgument`` while a payout is open that was asked for before the end: what is
    owed is reckoned from its request.
    """
    async for row in _rows(reads, "payout", OPEN_PAYOUTS):
        found = await reads.ledger_postings(ids=[row.anchor or ""], limit=1)
        if found and found[0].seq <= archive.head.span[1]:
            raise InvalidArgument(
                f"the payout {row.id} was asked for before {archive.head.sealed.id} and is open: "
                "nothing is removed before it has ended"
            )


async def _owed_alike(reads: LedgerReads) -> None:
    """Raise ``ChainBroken`` while rows and postings do not agree about what open payouts cost.

    An altered row may say of a payout that it has ended, and its request would be owed no more.
    """
    totals = await reads.ledger_totals()
    if totals.quotes != totals.requested:
        rows, postings = (money.text("USD", one) for one in (totals.quotes, totals.requested))
        raise ChainBroken(
            f"open payouts cost {rows} by their rows and {postings} by the postings that asked for "
            "them: nothing is removed"
        )


async def _needed(reads: LedgerReads, until: int) -> AsyncIterator[list[str]]:
    """The postings up to a number that rows which are open name, by pages."""
    for kind, states in NEEDED.items():
        page: list[str] = []
        async for row in _rows(reads, kind, states):
            page.append(row.anchor or "")
            if len(page) == PAGE:
                yield await _before(reads, page, until)
                page = []
        yield await _before(reads, page, until)


async def _before(reads: LedgerReads, ids: list[str], until: int) -> list[str]:
    if not ids:
        return []
    found = await reads.ledger_postings(ids=ids, limit=len(ids))
    return [one.id for one in found if one.seq <= until]


async def _rows(reads: LedgerReads, kind: str, states: tuple[str, ...]) -> AsyncIterator[SideRow]:
    after = ""
    while page := await reads.ledger_sides(kind, states=states, after=after, limit=PAGE):
        for row in page:
            yield row
        after = page[-1].id


async def _until(reads: LedgerReads, archive: ArchiveReplay) -> int:
    """The time of the last posting that the archive has."""
    (last,) = await reads.ledger_postings(after=archive.head.span[1] - 1, limit=1)
    return last.at
