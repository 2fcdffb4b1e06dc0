"""Checkpoints: seal where all chains stand, and prove later that they only grew.

A seal is refused while anything does not hold. A verification asks whether each sealed head is
still at its place on its account's chain and whether the chain from there to now holds: so honest
postings never disturb it, and a chain that was cut, altered, exchanged or went missing does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from offpath.ledger.chains import (
    MOST_BREAKS,
    Break,
    ChainWalk,
    all_accounts,
    all_leaves,
    all_links,
    leaf_of,
    prove_account,
)
from offpath.ledger.merkle import Merkle, Root
from offpath.ledger.signing import VERSION, Signer, signed_bytes
from offpath.model.ledger.faults import ChainBroken, Unbalanced
from offpath.model.ledger.records import Checkpoint, Leaf

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads, LedgerStore

SIGNATURE: Final = "signature"
LEAVES: Final = "leaves"
"""The stored leaves are not those that were signed."""
ROLLED_BACK: Final = "rolled-back"
"""The anchor knows a checkpoint that the store does not: an older ledger was put in place."""


class Verifies(Protocol):
    """What a verification needs of a signer: no secret."""

    def verify(self, content: bytes, signature: str) -> bool:
        """Whether one of the known keys made the signature. Raises ValueError: it is no hex."""
        ...


class Verification(Struct, frozen=True, kw_only=True):
    """What became of verifying the last checkpoint."""

    checkpoint: Checkpoint | None = None
    """None: nothing was sealed yet."""
    problems: tuple[str, ...] = ()
    """Of the checkpoint itself: ``signature``, ``leaves``, ``rolled-back``."""
    breaks: tuple[Break, ...] = ()
    """Accounts whose chain does not hold; at most 100."""

    @property
    def mismatch(self) -> bool:
        """Whether something was tampered with."""
        return bool(self.problems or self.breaks)


class _Sealed(Struct, frozen=True, kw_only=True):
    """What is ready to be signed."""

    root: Root
    leaves: list[Leaf]
    last: Checkpoint | None
    now: int


async def seal(
    store: LedgerStore, signer: Signer, *, new_id: Callable[[], str], now: Callable[[], int]
) -> Checkpoint | None:
    """Prove all that moved since the last checkpoint, sign where every chain stands, and save it.

    None: the ledger is empty, nothing moved, or somebody else sealed at the same moment. ``now``
    gives milliseconds. Raises ``ChainBroken`` (nothing is saved) and ``Unbalanced``.
    """
    async with store.ledger_snapshot() as reads:
        sealed = await _prepared(reads, signer, now())
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
    )
    signature = await _signed(signer, signed_bytes(unsigned))
    checkpoint = replace(unsigned, signature=signature)
    return checkpoint if await store.save_checkpoint(checkpoint, sealed.leaves) else None


async def verify_last(
    store: LedgerStore, keys: Verifies, anchored: Checkpoint | None = None
) -> Verification:
    """Verify the last checkpoint against the ledger as it is now.

    ``anchored`` is the latest checkpoint that was published outside, where a restored older file
    does not reach. Raises ``ChainBroken`` for a signature that is no signature at all.
    """
    async with store.ledger_snapshot() as reads:
        last = await _last(reads)
        if last is None:
            return Verification(problems=() if anchored is None else (ROLLED_BACK,))
        problems = await _problems(reads, last, keys, anchored)
        breaks = await _moved_breaks(reads)
    return Verification(checkpoint=last, problems=problems, breaks=tuple(breaks))


def verify_checkpoint(checkpoint: Checkpoint, keys: Verifies) -> bool:
    """Whether one of the keys signed it. Raises ``ChainBroken`` when it is malformed."""
    try:
        return keys.verify(signed_bytes(checkpoint), checkpoint.signature)
    except (ValueError, OverflowError) as error:
        raise ChainBroken(f"checkpoint {checkpoint.id} is malformed: {error}") from error


async def _prepared(reads: LedgerReads, signer: Signer, now: int) -> _Sealed | None:
    last = await _last(reads)
    trusted = last is not None and await _trusts_leaves(reads, last, signer)
    if last is None or not trusted:
        leaves, root = await _replayed(reads)
    else:
        leaves, root = await _advanced(reads)
        if not leaves:
            return None  # nothing moved: sealing it again would say nothing new
    if root.count == 0 and last is None:
        return None
    if root.sum:
        raise Unbalanced(f"the ledger does not balance: all entries sum to {root.sum}, not to 0")
    return _Sealed(root=root, leaves=leaves, last=last, now=now)


async def _trusts_leaves(reads: LedgerReads, last: Checkpoint, signer: Signer) -> bool:
    """Whether the stored leaves are those of the last checkpoint, and it is ours."""
    try:
        signed = signer.verify(signed_bytes(last), last.signature)
    except (ValueError, OverflowError):
        return False
    return signed and await _leaves_root(reads, last.v) == _root_in(last)


def _root_in(checkpoint: Checkpoint) -> Root:
    return Root(checkpoint.root, checkpoint.sum, checkpoint.count)


async def _leaves_root(reads: LedgerReads, version: int) -> Root:
    merkle = Merkle(version)
    async for leaf in all_leaves(reads):
        merkle.add(leaf)
    return merkle.root()


async def _advanced(reads: LedgerReads) -> tuple[list[Leaf], Root]:
    """The leaves that changed, each proved from where it was sealed; the root of all."""
    changed: list[Leaf] = []
    async for account, live, leaf in _moved(reads):
        if (found := await prove_account(reads, account, live, leaf)) is not None:
            raise ChainBroken(str(found))
        if live is not None:
            changed.append(leaf_of(live))
    return changed, await _live_root(reads)


async def _replayed(reads: LedgerReads) -> tuple[list[Leaf], Root]:
    """Every leaf, each chain replayed from its genesis; the root of all."""
    sealed = {leaf.account async for leaf in all_leaves(reads)}
    leaves = [leaf async for leaf in _proved(reads)]
    if gone := sealed - {leaf.account for leaf in leaves}:
        raise ChainBroken(f"{min(gone)} was sealed and is not there any more")
    return leaves, await _live_root(reads)


async def _proved(reads: LedgerReads) -> Any:  # noqa: ANN401 - an async generator of leaves
    links = all_links(reads)
    pending = await anext(links, None)
    async for account in all_accounts(reads):
        walk = ChainWalk(account.id)
        if pending is not None and pending[0].account < account.id:
            raise ChainBroken(f"{pending[0].account} has links and no account")
        while pending is not None and pending[0].account == account.id:
            if (found := walk.step(*pending)) is not None:
                raise ChainBroken(str(found))
            pending = await anext(links, None)
        if (found := walk.end(account)) is not None:
            raise ChainBroken(str(found))
        yield leaf_of(account)
    if pending is not None:
        raise ChainBroken(f"{pending[0].account} has links and no account")


async def _live_root(reads: LedgerReads) -> Root:
    merkle = Merkle(VERSION)
    async for account in all_accounts(reads):
        merkle.add(leaf_of(account))
    return merkle.root()


async def _problems(
    reads: LedgerReads, last: Checkpoint, keys: Verifies, anchored: Checkpoint | None
) -> tuple[str, ...]:
    problems = [] if verify_checkpoint(last, keys) else [SIGNATURE]
    if await _leaves_root(reads, last.v) != _root_in(last):
        problems.append(LEAVES)
    if anchored is not None and not await _knows(reads, anchored):
        problems.append(ROLLED_BACK)
    return tuple(problems)


async def _knows(reads: LedgerReads, anchored: Checkpoint) -> bool:
    """Whether the store has the anchored checkpoint, as it was published."""
    before = ""
    while page := await reads.ledger_checkpoints(before=before, limit=100):
        for known in page:
            if known.id == anchored.id:
                return known == anchored
            if known.at < anchored.at:
                return False
        before = page[-1].id
    return False


async def _moved_breaks(reads: LedgerReads) -> list[Break]:
    breaks: list[Break] = []
    async for account, live, leaf in _moved(reads):
        if (found := await prove_account(reads, account, live, leaf)) is not None:
            breaks.append(found)
            if len(breaks) >= MOST_BREAKS:
                break
    return breaks


async def _moved(reads: LedgerReads) -> Any:  # noqa: ANN401 - an async generator
    """Accounts that are not as they were sealed, with what they are and what was sealed."""
    after = ""
    while names := await reads.ledger_moved(after=after):
        live = {one.id: one for one in await reads.ledger_accounts(ids=names, limit=len(names))}
        sealed = await _leaves_of(reads, names)
        for name in names:
            yield name, live.get(name), sealed.get(name)
        after = names[-1]


async def _leaves_of(reads: LedgerReads, names: list[str]) -> dict[str, Leaf]:
    return {leaf.account: leaf for leaf in await reads.ledger_leaves(ids=names, limit=len(names))}


async def _last(reads: LedgerReads) -> Checkpoint | None:
    page = await reads.ledger_checkpoints(limit=1)
    return page[0] if page else None


async def _signed(signer: Signer, content: bytes) -> str:
    signature = signer.sign(content)
    return str(await signature if inspect.isawaitable(signature) else signature)
