"""Verification of the last checkpoint: the chains only grew since it was sealed.

It asks whether each sealed head is still at its place on its account's chain and whether the chain
from there to now holds: so honest postings never disturb it, and a chain that was cut, altered,
exchanged or went missing does. It costs what was posted since the seal, and some of what was sealed
before is read again each time.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from offpath.economy.ledger.chains import MOST_BREAKS, PAGE, Break, prove_sides, recheck, replay
from offpath.economy.ledger.history import rewritten, walked
from offpath.economy.ledger.signatures import NUMBERED, SealVerifier, is_ours, verify_checkpoint
from offpath.economy.ledger.survey import (
    SUMMED,
    LedgerSurvey,
    follows,
    last_checkpoint,
    moved_sides,
    root_in,
)
from offpath.economy.ledger.trim_proof import forged
from offpath.model.ledger.records import Checkpoint

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
        last = await last_checkpoint(reads)
        if last is None:
            return await _unsealed(reads, anchored)
        survey = LedgerSurvey(last.v, chance)
        problems = [] if verify_checkpoint(last, keys) else [SIGNATURE]
        found = (
            _replayed(reads, survey)
            if full or last.v < SUMMED  # its sums were not signed: they cannot be gone on from
            else _advanced(reads, survey, again)
        )
        breaks = await _some(found)
        if survey.sealed() != root_in(last):
            problems.append(LEAVES)
            problems += [HISTORY async for _ in rewritten(reads, _numbered(last))]
        if full:
            problems += [one async for one in walked(reads, lambda one: is_ours(one, keys))]
        if survey.unbalanced():
            problems.append(UNBALANCED)
        problems += [one async for one in forged(reads, keys, full=full)]
        if anchored is not None and not await follows(reads, anchored, keys):
            problems.append(ROLLED_BACK)
    return Verification(checkpoint=last, problems=tuple(problems), breaks=breaks)


def _numbered(last: Checkpoint) -> list[Checkpoint]:
    """The checkpoint, if what it covers can be made again from the links."""
    return [last] if last.v >= NUMBERED else []


async def _unsealed(reads: LedgerReads, anchored: Checkpoint | None) -> Verification:
    """There is no checkpoint: then there are no leaves either, and none was published."""
    problems = [LEAVES] if await reads.ledger_leaves(limit=1) else []
    if anchored is not None:
        problems.append(ROLLED_BACK)
    return Verification(problems=tuple(problems))


async def _advanced(reads: LedgerReads, survey: LedgerSurvey, again: int) -> AsyncIterator[Break]:
    """Breaks since the seal, and in some of what was sealed."""
    async for _, found in prove_sides(reads, moved_sides(reads, survey)):
        if found is not None:
            yield found
    place = ("", 0) if survey.links <= again else survey.drawn
    async for found in recheck(reads, place, again):
        yield found


async def _replayed(reads: LedgerReads, survey: LedgerSurvey) -> AsyncIterator[Break]:
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
