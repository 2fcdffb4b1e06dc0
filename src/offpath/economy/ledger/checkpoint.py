"""Checkpoints: seal where all chains stand, and prove later that they only grew.

A seal is refused while anything does not hold, and while a mismatch stands. A verification asks
whether each sealed head is still at its place on its account's chain and whether the chain from
there to now holds: so honest postings never disturb it, and a chain that was cut, altered,
exchanged or went missing does. It costs what was posted since the seal, and some of what was sealed
before is read again each time.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from offpath.economy.ledger.chains import (
    MOST_BREAKS,
    PAGE,
    Break,
    ChainWalk,
    Side,
    all_sides,
    leaf_of,
    prove_sides,
    recheck,
    replay,
)
from offpath.economy.ledger.history import rewritten, walked
from offpath.economy.ledger.merkle import Root, Tree
from offpath.economy.ledger.mismatches import MISMATCH, ProvedStore, unhindered
from offpath.economy.ledger.signatures import (
    NUMBERED,
    VERSION,
    Signer,
    signature_of,
    signed_bytes,
)
from offpath.economy.ledger.standings import standings_of
from offpath.economy.ledger.trim_proof import forged
from offpath.model.ledger.chart import chart
from offpath.model.ledger.faults import ChainBroken, Unbalanced, UnknownAccount
from offpath.model.ledger.records import AccountRecord, Checkpoint, Leaf

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads, LedgerStore

SIGNATURE: Final = "signature"
LEAVES: Final = "leaves"
"""The stored leaves are not those that were signed."""
ROLLED_BACK: Final = "rolled-back"
"""The last checkpoint does not follow the one that the anchor knows: an older ledger was put in
place, or the checkpoints since were removed.
"""
HISTORY: Final = "history"
"""The links do not give what the checkpoint signed."""
UNBALANCED: Final = "unbalanced"
"""All accounts together do not sum to zero in each currency."""
_LINKED: Final = 3
"""The version from which on a checkpoint names the one before."""
_SUMMED: Final = 2
"""The version from which on a root covers sums."""


class SealVerifier(Protocol):
    """The part of a signer that a verification needs: no secret."""

    def verify(self, content: bytes, signature: str) -> bool:
        """True if one of the known keys made the signature. Raises ValueError: it is not hex."""
        ...


class Verification(Struct, frozen=True, kw_only=True):
    """The outcome of verifying the last checkpoint."""

    checkpoint: Checkpoint | None = None
    """None: nothing was sealed yet."""
    problems: tuple[str, ...] = ()
    """Of the whole: ``signature``, ``leaves``, ``history``, ``rolled-back``, ``unbalanced``; of all
    checkpoints, when all were walked: ``ID: signature``, ``ID: order``, ``ID: history``; of trims
    ``trim N: signature``, ``trim N: checkpoint``, ``trim N: kept``.
    """
    breaks: tuple[Break, ...] = ()
    """Accounts whose chain does not hold; at most 100."""

    @property
    def mismatch(self) -> bool:
        """True if something was tampered with."""
        return bool(self.problems or self.breaks)

    @property
    def lines(self) -> tuple[str, ...]:
        """All that was found, as lines for people."""
        return (*self.problems, *map(str, self.breaks))


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


async def verify_last(
    store: LedgerStore,
    keys: SealVerifier,
    anchored: Checkpoint | None = None,
    *,
    full: bool = False,
    again: int = PAGE,
    chance: Callable[[], float] = random.random,
) -> Verification:
    """Verify the last checkpoint against the ledger as it is now.

    ``anchored`` is the latest checkpoint that was published outside, where a restored older file
    does not reach. ``full`` replays every chain from its genesis; otherwise the chains are walked
    from where they were sealed, and ``again`` links from a place drawn by ``chance`` are read once
    more: all of them, if the ledger has no more. Raises ``ChainBroken`` for a signature that is no
    signature at all.
    """
    async with store.ledger_snapshot() as reads:
        last = await _last(reads)
        if last is None:
            return await _unsealed(reads, anchored)
        survey = _Survey(last.v, chance)
        problems = [] if verify_checkpoint(last, keys) else [SIGNATURE]
        found = (
            _replayed(reads, survey)
            if full or last.v < _SUMMED  # its sums were not signed: they cannot be gone on from
            else _advanced(reads, survey, again)
        )
        breaks = await _some(found)
        if survey.sealed() != _root_in(last):
            problems.append(LEAVES)
            problems += [HISTORY async for _ in rewritten(reads, _numbered(last))]
        if full:
            problems += [one async for one in walked(reads, lambda one: _ours(one, keys))]
        if survey.unbalanced():
            problems.append(UNBALANCED)
        problems += [one async for one in forged(reads, keys, full=full)]
        if anchored is not None and not await _follows(reads, anchored, keys):
            problems.append(ROLLED_BACK)
    return Verification(checkpoint=last, problems=tuple(problems), breaks=breaks)


def _numbered(last: Checkpoint) -> list[Checkpoint]:
    """The checkpoint, if what it covers can be made again from the links."""
    return [last] if last.v >= NUMBERED else []


def verify_checkpoint(checkpoint: Checkpoint, keys: SealVerifier) -> bool:
    """True if one of the keys signed it. Raises ``ChainBroken`` when it is malformed."""
    try:
        return keys.verify(signed_bytes(checkpoint), checkpoint.signature)
    except (ValueError, OverflowError) as error:
        raise ChainBroken(
            f"checkpoint {checkpoint.id} was altered, it is malformed: {error}"
        ) from error


class _Survey:
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


async def _unsealed(reads: LedgerReads, anchored: Checkpoint | None) -> Verification:
    """There is no checkpoint: then there are no leaves either, and none was published."""
    problems = [LEAVES] if await reads.ledger_leaves(limit=1) else []
    if anchored is not None:
        problems.append(ROLLED_BACK)
    return Verification(problems=tuple(problems))


async def _prepared(
    reads: LedgerReads, signer: Signer, now: int, anchored: Checkpoint | None
) -> _Sealed | None:
    last = await _last(reads)
    if anchored is not None and not await _follows(reads, anchored, signer):
        raise ChainBroken(
            f"the last checkpoint does not follow {anchored.id}, which the anchor has: an older "
            "ledger was put in place, or checkpoints were removed"
        )
    survey = _Survey(VERSION if last is None else last.v)
    found = await _proved(reads, survey, last)
    leaves = found.leaves
    if last is not None:
        _vouched(survey, last, signer)
    summed = last is not None and last.v >= _SUMMED
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
    survey = _Survey(VERSION)
    leaves = [leaf async for leaf in _anew(reads, None, survey)]
    return await _sealable(reads, survey, leaves, await _last(reads), now, anew=True)


async def _sealable(
    reads: LedgerReads,
    survey: _Survey,
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


def _vouched(survey: _Survey, last: Checkpoint, signer: Signer) -> None:
    """Raise ``ChainBroken`` unless the last checkpoint is ours and the stored leaves are those that
    it signed: what else could be gone on from is what somebody else has written.
    """
    if not _ours(last, signer):
        raise ChainBroken(
            f"none of our keys signed checkpoint {last.id}: nothing is sealed over it"
        )
    if survey.sealed() != _root_in(last):
        raise ChainBroken(
            f"the stored leaves are not those that checkpoint {last.id} signed: nothing is sealed "
            "over it"
        )


def _ours(checkpoint: Checkpoint, keys: SealVerifier) -> bool:
    try:
        return verify_checkpoint(checkpoint, keys)
    except ChainBroken:
        return False


def _root_in(checkpoint: Checkpoint) -> Root:
    return Root(checkpoint.root, checkpoint.sum, checkpoint.count)


async def _proved(reads: LedgerReads, survey: _Survey, last: Checkpoint | None) -> _Proved:
    """The accounts that moved, each proved from where it was sealed, while all are surveyed: only
    then it is known whether these seals can be believed. Without any there is nothing to prove it
    from.
    """
    moved = _Proved()
    if last is None or last.v < _SUMMED:
        async for side in _moved(reads, survey):
            moved.look(side)
        return moved
    async for side, found in prove_sides(reads, _moved(reads, survey)):
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
    reads: LedgerReads, gone: str | None, survey: _Survey | None = None
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


async def _follows(reads: LedgerReads, anchored: Checkpoint, keys: SealVerifier) -> bool:
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
            if known.v < _LINKED or known.prev is None or not _ours(known, keys):
                return False
            wanted = known.prev
        before = page[-1].id
    return False


async def _advanced(reads: LedgerReads, survey: _Survey, again: int) -> AsyncIterator[Break]:
    """Breaks since the seal, and in some of what was sealed."""
    async for _, found in prove_sides(reads, _moved(reads, survey)):
        if found is not None:
            yield found
    place = ("", 0) if survey.links <= again else survey.drawn
    async for found in recheck(reads, place, again):
        yield found


async def _replayed(reads: LedgerReads, survey: _Survey) -> AsyncIterator[Break]:
    """Breaks in all of it."""
    async for done in replay(reads, sealed=True):
        survey.take(done.side)
        if done.found is not None:
            yield done.found


async def _some(found: AsyncIterator[Break]) -> tuple[Break, ...]:
    """The first breaks of as many accounts as one report names; the rest is walked all the same."""
    breaks: dict[str, Break] = {}
    async for one in found:
        if len(breaks) < MOST_BREAKS:
            breaks.setdefault(one.account, one)
    return tuple(breaks.values())


async def _moved(reads: LedgerReads, survey: _Survey) -> AsyncIterator[Side]:
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


async def _last(reads: LedgerReads) -> Checkpoint | None:
    page = await reads.ledger_checkpoints(limit=1)
    return page[0] if page else None
