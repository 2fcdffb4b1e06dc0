"""Checkpoints: where all chains stand, proved and signed.

A seal is refused while anything does not hold, and while a mismatch stands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from offpath.economy.ledger.chains import PAGE, ChainWalk, Side, leaf_of, prove_sides, replay
from offpath.economy.ledger.merkle import Root
from offpath.economy.ledger.mismatches import MISMATCH, ProvedStore, unhindered
from offpath.economy.ledger.signatures import (
    VERSION,
    Signer,
    is_ours,
    signature_of,
    signed_bytes,
)
from offpath.economy.ledger.standings import standings_of
from offpath.economy.ledger.survey import (
    SUMMED,
    LedgerSurvey,
    follows,
    last_checkpoint,
    moved_sides,
    root_in,
)
from offpath.model.ledger.faults import ChainBroken, Unbalanced
from offpath.model.ledger.records import Checkpoint, Leaf

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads


class _Sealed(Struct, frozen=True, kw_only=True):
    """The content that is ready to be signed."""

    root: Root
    leaves: list[Leaf]
    last: Checkpoint | None
    now: int
    posting: int
    """The number of the last posting that it covers."""
    anew: bool
    """True if these are all leaves: the seal does not continue the one before."""


class _Proved:
    """The accounts that moved since they were sealed: all that is kept of them is what is sealed
    next.
    """

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self.broken: str | None = None
        """The first that does not hold."""
        self.gone: str | None = None
        """The first that is not there any more."""

    def look(self, side: Side) -> None:
        if side.account is None and self.gone is None:
            self.gone = side.name


async def seal(
    store: ProvedStore,
    signer: Signer,
    *,
    new_id: Callable[[], str],
    now: Callable[[], int],
    anchored: Checkpoint | None = None,
) -> Checkpoint | None:
    """Prove all that moved since the last checkpoint, sign where every chain stands, and save it.

    None: the ledger is empty, nothing moved, or somebody else sealed at the same moment. ``now``
    gives milliseconds; ``anchored`` is the latest checkpoint that was published outside, which the
    last one must follow. Raises ``ChainBroken`` (nothing is saved) and ``Unbalanced``.

    Nothing is sealed over a mismatch: what the last checkpoint does not vouch for, since it is not
    ours or its leaves are not those that it signed, is refused, and so is all while a mismatch
    stands that nobody has accepted. Once it is accepted, all chains are proved from their genesis
    and sealed anew, and the finding ends with that.
    """
    accepted = await unhindered(store) is not None
    async with store.ledger_snapshot() as reads:
        prepared = _renewed(reads, now()) if accepted else _prepared(reads, signer, now(), anchored)
        sealed = await prepared
    if sealed is None:
        return None
    last = sealed.last
    unsigned = Checkpoint(
        id=new_id(),
        root=sealed.root.hash,
        signature="",
        count=sealed.root.count,
        at=sealed.now,
        v=VERSION,
        sum=sealed.root.sum,
        kid=signer.kid,
        prev=None if last is None else last.id,
        posting=sealed.posting,
    )
    signature = await signature_of(signer, signed_bytes(unsigned))
    checkpoint = replace(unsigned, signature=signature)
    if not await store.save_checkpoint(checkpoint, sealed.leaves, anew=sealed.anew):
        return None
    if accepted:
        await store.end_finding(MISMATCH)
    return checkpoint


async def _prepared(
    reads: LedgerReads, signer: Signer, now: int, anchored: Checkpoint | None
) -> _Sealed | None:
    last = await last_checkpoint(reads)
    if anchored is not None and not await follows(reads, anchored, signer):
        raise ChainBroken(
            f"the last checkpoint does not follow {anchored.id}, which the anchor has: an older "
            "ledger was put in place, or checkpoints were removed"
        )
    survey = LedgerSurvey(VERSION if last is None else last.v)
    found = await _proved(reads, survey, last)
    leaves = found.leaves
    if last is not None:
        _vouched(survey, last, signer)
    summed = last is not None and last.v >= SUMMED
    if summed:
        if found.broken is not None:
            raise ChainBroken(found.broken)
        if not leaves:
            return None  # sealing it again would say nothing new
    else:
        leaves = [leaf async for leaf in _anew(reads, found.gone)]
        if not leaves and last is None:
            return None
    return await _sealable(reads, survey, leaves, last, now, anew=not summed)


async def _renewed(reads: LedgerReads, now: int) -> _Sealed | None:
    """All of it proved from its genesis, whatever was sealed: what is not as it was sealed has been
    accepted. A chain that does not hold by itself is refused all the same.
    """
    survey = LedgerSurvey(VERSION)
    leaves = [leaf async for leaf in _anew(reads, None, survey)]
    return await _sealable(reads, survey, leaves, await last_checkpoint(reads), now, anew=True)


async def _sealable(
    reads: LedgerReads,
    survey: LedgerSurvey,
    leaves: list[Leaf],
    last: Checkpoint | None,
    now: int,
    *,
    anew: bool,
) -> _Sealed:
    """The proved leaves, when all of them together sum to zero. Raises ``Unbalanced``."""
    if off := survey.unbalanced():
        raise Unbalanced(
            f"the ledger does not balance: its entries are off by {off}, in minor units"
        )
    posting = await reads.ledger_last()
    return _Sealed(
        root=survey.live(), leaves=leaves, last=last, now=now, posting=posting, anew=anew
    )


def _vouched(survey: LedgerSurvey, last: Checkpoint, signer: Signer) -> None:
    """Raise ``ChainBroken`` unless the last checkpoint is ours and the stored leaves are those that
    it signed: what else could be gone on from is what somebody else has written.
    """
    if not is_ours(last, signer):
        raise ChainBroken(
            f"none of our keys signed checkpoint {last.id}: nothing is sealed over it"
        )
    if survey.sealed() != root_in(last):
        raise ChainBroken(
            f"the stored leaves are not those that checkpoint {last.id} signed: nothing is sealed "
            "over it"
        )


async def _proved(reads: LedgerReads, survey: LedgerSurvey, last: Checkpoint | None) -> _Proved:
    """The accounts that moved, each proved from where it was sealed, while all are surveyed: only
    then it is known whether these seals can be believed. Without any there is nothing to prove it
    from.
    """
    moved = _Proved()
    if last is None or last.v < SUMMED:
        async for side in moved_sides(reads, survey):
            moved.look(side)
        return moved
    async for side, found in prove_sides(reads, moved_sides(reads, survey)):
        moved.look(side)
        if side.account is not None and (found is None or await _numbered_wrong(reads, side)):
            moved.leaves.append(leaf_of(side.account))
        elif moved.broken is None:
            moved.broken = str(found)
    return moved


async def _numbered_wrong(reads: LedgerReads, side: Side) -> bool:
    """True if all is well but the leaf's number, which is not signed: the sealed head is on the
    chain, which holds from its genesis.
    """
    walk, there, after = ChainWalk(side.name), False, 0
    begun = (await standings_of(reads, [side.name])).get(side.name)
    while side.leaf is not None and (
        page := await reads.ledger_since(side.name, after, limit=PAGE)
    ):
        if after == 0:
            walk.begin(page[0][0], begun)
        for link, meta in page:
            if walk.step(link, meta) is not None:
                return False
            there = there or (walk.head, walk.sum) == (side.leaf.head, side.leaf.sum)
        after = page[-1][0].number
    return there and walk.end(side.account) is None


async def _anew(
    reads: LedgerReads, gone: str | None, survey: LedgerSurvey | None = None
) -> AsyncIterator[Leaf]:
    """Every leaf, each chain replayed from its genesis; a survey takes all accounts."""
    if gone is not None:
        raise ChainBroken(f"{gone} was sealed and is not there any more")
    async for done in replay(reads, sealed=False):
        if done.found is not None or done.side.account is None:
            raise ChainBroken(str(done.found))
        if survey is not None:
            survey.take(done.side)
        yield leaf_of(done.side.account)
